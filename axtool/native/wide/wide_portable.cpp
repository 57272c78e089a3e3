// The wide ops for any CPU: what the compiler makes of them with its default instructions.
#include "wide_loops.h"
#include "wide_mac.h"

namespace axtool {
namespace {

struct Portable {
  static constexpr int kPixels = 4;

  static void expand(int x_bytes, const int8_t *src, int16_t *dst, int n) {
    if (x_bytes == 2) memcpy(dst, src, size_t(n) * 2);
    else
      for (int i = 0; i < n; ++i) dst[i] = src[i];
  }

  static void prepare(const int8_t *src, int16_t *dst, int quads) {
    for (int q = 0; q < quads; ++q, src += 64, dst += 64)
      for (int c = 0; c < 16; ++c)
        for (int i = 0; i < 4; ++i) dst[i / 2 * 32 + c * 2 + i % 2] = src[c * 4 + i];
  }

  static void sums(int n, const int16_t *const *p, const MacRun *runs, int count, const int16_t *w,
                   const int32_t *start, int32_t (*sums)[16]) {
    for (int i = 0; i < n; ++i) {
      int32_t acc[16];
      memcpy(acc, start, sizeof acc);
      for (int r = 0; r < count; ++r) {
        const int16_t *x = p[i] + runs[r].x, *pair = w + int64_t(runs[r].w) * 64;
        for (int k = 0; k < 2 * runs[r].quads; ++k, x += 2, pair += 32)
          for (int c = 0; c < 16; ++c) acc[c] += x[0] * pair[2 * c] + x[1] * pair[2 * c + 1];
      }
      memcpy(sums[i], acc, sizeof acc);
    }
  }

  static constexpr int kFew = 0;
  static void few_sums(int, const int16_t *const *, const MacRun *, int, const int8_t *, const int32_t *,
                       int32_t (*)[16]) {}

  static void prepare_taps(const int8_t *src, int16_t *dst, int taps) {
    for (int i = 0; i < taps + taps % 2; ++i)
      for (int c = 0; c < 16; ++c) dst[i / 2 * 32 + c * 2 + i % 2] = i < taps ? src[i * 16 + c] : int16_t(0);
  }

  static void tap_sums(int n, const int16_t *const *p, const int64_t *at, int pairs, const int16_t *w,
                       const int32_t *start, int32_t (*sums)[16]) {
    for (int i = 0; i < n; ++i) {
      int32_t acc[16];
      memcpy(acc, start, sizeof acc);
      const int16_t *pair = w;
      for (int k = 0; k < pairs; ++k, pair += 32) {
        const int16_t *x0 = p[i] + at[2 * k], *x1 = p[i] + at[2 * k + 1];
        for (int c = 0; c < 16; ++c) acc[c] += x0[c] * pair[2 * c] + x1[c] * pair[2 * c + 1];
      }
      memcpy(sums[i], acc, sizeof acc);
    }
  }

  template <class Sum>
  static void finish(const WideTask &t, const WideOut &out, int n, const Sum (*sums)[16], int8_t *const *y) {
    for (int i = 0; i < n; ++i)
      for (int c = 0; c < out.channels; ++c) wide_finish_one(t, out, sums[i][c], c, y[i]);
  }
};

size_t mac_scratch(const WideTask &t) { return WideDriver<Portable>(t, nullptr).scratch_bytes; }
void mac(const WideTask &t, void *scratch) { WideDriver<Portable>(t, scratch).run(); }

}  // namespace

const Wide wide_portable = {mac_scratch, mac, wide_add, wide_mul, wide_requantize, wide_lut, wide_sum, wide_finish};

const Wide &wide_for(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::avx2 || isa == Isa::avxvnni || isa == Isa::avx512vnni) return wide_avx2;
#endif
  (void)isa;
  return wide_portable;
}

}  // namespace axtool
