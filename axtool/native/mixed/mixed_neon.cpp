// The fx_ and fp16_ ops for 64-bit Arm: every one of them has these instructions.
#include "mixed.h"

#if defined(__aarch64__)
#include <arm_neon.h>

#include "mixed_linear.h"
#include "mixed_loops.h"

namespace axtool {
namespace {

struct Neon {
  static constexpr int kPixels = 6;  // 24 registers of sums, 4 of weights

  static void widen(const int8_t *src, float *dst, int n) {
    int i = 0;
    for (; i + 4 <= n; i += 4)
      vst1q_f32(dst + i, vcvt_f32_f16(vreinterpret_f16_s8(vld1_s8(src + 2 * i))));
    for (; i < n; ++i) dst[i] = half_to_float(mixed_load<uint16_t>(src, i));
  }

  static void narrow(const int8_t *src, float scale, float *dst, int n) {
    int i = 0;
    for (; i + 4 <= n; i += 4) {
      const float32x4_t v = vmulq_n_f32(vcvtq_f32_s32(vreinterpretq_s32_s8(vld1q_s8(src + 4 * i))), scale);
      vst1q_f32(dst + i, vcvt_f32_f16(vcvt_f16_f32(v)));
    }
    for (; i < n; ++i) dst[i] = half_to_float(float_to_half(fx_to_float(mixed_load<int32_t>(src, i), scale)));
  }

  template <int n>
  static void sums_of(const float *const *x, const float *w, int k, float *acc) {
    float32x4_t sum[n][4];
    for (int p = 0; p < n; ++p)
      for (int q = 0; q < 4; ++q) sum[p][q] = vld1q_f32(acc + 16 * p + 4 * q);
    for (int i = 0; i < k; ++i, w += 16) {
      const float32x4_t w0 = vld1q_f32(w), w1 = vld1q_f32(w + 4), w2 = vld1q_f32(w + 8), w3 = vld1q_f32(w + 12);
      for (int p = 0; p < n; ++p) {
        const float v = x[p][i];
        sum[p][0] = vfmaq_n_f32(sum[p][0], w0, v), sum[p][1] = vfmaq_n_f32(sum[p][1], w1, v);
        sum[p][2] = vfmaq_n_f32(sum[p][2], w2, v), sum[p][3] = vfmaq_n_f32(sum[p][3], w3, v);
      }
    }
    for (int p = 0; p < n; ++p)
      for (int q = 0; q < 4; ++q) vst1q_f32(acc + 16 * p + 4 * q, sum[p][q]);
  }

  static void sums(int n, const float *const *x, const float *w, int k, float *acc) {
    return sums_of_pixels<Neon>(n, x, w, k, acc);
  }

  static void finish(const LinearTask &t, const float *acc, const float *bias, int n, int8_t *y) {
    linear_finish(t, acc, bias, n, y);
  }
};

size_t linear_scratch(const LinearTask &t) { return LinearDriver<Neon>(t, nullptr).scratch_bytes(); }
void linear(const LinearTask &t, void *scratch) { LinearDriver<Neon>(t, scratch).run(); }

}  // namespace

const Mixed mixed_neon = {fx_add, fx_mul,       fx_requantize, fx_quantize,    fx_dequantize,
                          fx_lut, fx_from_fp16, fx_to_fp16,    linear_scratch, linear};

}  // namespace axtool
#endif
