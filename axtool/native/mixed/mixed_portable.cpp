// The fx_ and fp16_ ops for any CPU: what the compiler makes of them with its default instructions.
#include "mixed_linear.h"
#include "mixed_loops.h"

namespace axtool {
namespace {

typedef float Four __attribute__((vector_size(16)));  // loops over arrays are left in memory by some compilers

struct Portable {
  static constexpr int kPixels = 4;

  static void widen(const int8_t *src, float *dst, int n) {
    for (int i = 0; i < n; ++i) dst[i] = half_to_float(mixed_load<uint16_t>(src, i));
  }

  static void narrow(const int8_t *src, float scale, float *dst, int n) {
    for (int i = 0; i < n; ++i)
      dst[i] = half_to_float(float_to_half(fx_to_float(mixed_load<int32_t>(src, i), scale)));
  }

  static void sums(int n, const float *const *x, const float *w, int k, float *acc) {
    for (int p = 0; p < n; ++p, acc += 16) {
      Four sum[4];
      memcpy(sum, acc, sizeof sum);
      for (int i = 0; i < k; ++i) {
        Four row[4];
        memcpy(row, w + i * 16, sizeof row);
        for (int q = 0; q < 4; ++q) sum[q] += x[p][i] * row[q];
      }
      memcpy(acc, sum, sizeof sum);
    }
  }

  static void finish(const LinearTask &t, const float *acc, const float *bias, int n, int8_t *y) {
    linear_finish(t, acc, bias, n, y);
  }
};

size_t linear_scratch(const LinearTask &t) { return LinearDriver<Portable>(t, nullptr).scratch_bytes(); }
void linear(const LinearTask &t, void *scratch) { LinearDriver<Portable>(t, scratch).run(); }

}  // namespace

const Mixed mixed_portable = {fx_add, fx_mul,       fx_requantize, fx_quantize,    fx_dequantize,
                              fx_lut, fx_from_fp16, fx_to_fp16,    linear_scratch, linear};

const Mixed &mixed_for(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::avx2 || isa == Isa::avxvnni || isa == Isa::avx512vnni)
    if (mixed_built_avx2() && __builtin_cpu_supports("f16c") && __builtin_cpu_supports("fma")) return mixed_avx2;
#elif defined(__aarch64__)
  if (isa == Isa::neon_dot) return mixed_neon;
#endif
  (void)isa;
  return mixed_portable;
}

}  // namespace axtool
