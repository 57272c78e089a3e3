// The fx_ and fp16_ ops for x86 with AVX2, FMA and F16C.
#include "mixed.h"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include <immintrin.h>

#include "mixed_avx2_loops.h"
#include "mixed_linear.h"

namespace axtool {
namespace {

constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

inline __m256 loaded_halves(const int8_t *p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p)));
}

struct Avx2 {
  static constexpr int kPixels = 6;  // 12 registers of sums, 2 of weights, 1 of an input

  static void widen(const int8_t *src, float *dst, int n) {
    int i = 0;
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(dst + i, loaded_halves(src + 2 * i));
    for (; i < n; ++i) dst[i] = half_to_float(mixed_load<uint16_t>(src, i));
  }

  static void narrow(const int8_t *src, float scale, float *dst, int n) {
    const __m256 scales = _mm256_set1_ps(scale);
    int i = 0;
    for (; i + 8 <= n; i += 8) {
      const __m256i fixed = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(src + 4 * i));
      const __m256 v = _mm256_mul_ps(_mm256_cvtepi32_ps(fixed), scales);
      _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(_mm256_cvtps_ph(v, kNearest)));
    }
    for (; i < n; ++i) dst[i] = half_to_float(float_to_half(fx_to_float(mixed_load<int32_t>(src, i), scale)));
  }

  template <int n>
  static void sums_of(const float *const *x, const float *w, int k, float *acc) {
    __m256 low[n], high[n];
    for (int p = 0; p < n; ++p) low[p] = _mm256_loadu_ps(acc + 16 * p), high[p] = _mm256_loadu_ps(acc + 16 * p + 8);
    for (int i = 0; i < k; ++i, w += 16) {
      const __m256 w_low = _mm256_loadu_ps(w), w_high = _mm256_loadu_ps(w + 8);
      for (int p = 0; p < n; ++p) {
        const __m256 v = _mm256_broadcast_ss(x[p] + i);
        low[p] = _mm256_fmadd_ps(v, w_low, low[p]), high[p] = _mm256_fmadd_ps(v, w_high, high[p]);
      }
    }
    for (int p = 0; p < n; ++p) _mm256_storeu_ps(acc + 16 * p, low[p]), _mm256_storeu_ps(acc + 16 * p + 8, high[p]);
  }

  static void sums(int n, const float *const *x, const float *w, int k, float *acc) {
    return sums_of_pixels<Avx2>(n, x, w, k, acc);
  }

  static void finish(const LinearTask &t, const float *acc, const float *bias, int n, int8_t *y) {
    if (n < 16) return linear_finish(t, acc, bias, n, y);
    const __m256 zero = _mm256_setzero_ps(), most = _mm256_set1_ps(2147483648.0f), scale = _mm256_set1_ps(power_of_two(t.f));
    for (int c = 0; c < 16; c += 8) {
      __m256 v = _mm256_add_ps(_mm256_loadu_ps(acc + c), _mm256_loadu_ps(bias + c));
      if (t.relu) v = _mm256_and_ps(v, _mm256_cmp_ps(v, zero, _CMP_GT_OQ));
      const __m256 is_number = _mm256_cmp_ps(v, v, _CMP_ORD_Q);
      if (t.out_bytes == 4) {
        const __m256 steps = _mm256_mul_ps(v, scale);
        __m256i q = _mm256_cvtps_epi32(steps);  // INT32_MIN for what does not fit
        q = _mm256_xor_si256(q, _mm256_castps_si256(_mm256_cmp_ps(steps, most, _CMP_GE_OQ)));
        q = _mm256_and_si256(q, _mm256_castps_si256(is_number));
        _mm256_storeu_si256(reinterpret_cast<__m256i *>(y + 4 * c), q);
      } else {
        const __m128i halves = _mm256_cvtps_ph(v, kNearest);
        const __m256i mask = _mm256_castps_si256(is_number);
        const __m128i keep = _mm_packs_epi32(_mm256_castsi256_si128(mask), _mm256_extracti128_si256(mask, 1));
        const __m128i q = _mm_blendv_epi8(_mm_set1_epi16(kHalfNan), halves, keep);
        _mm_storeu_si128(reinterpret_cast<__m128i *>(y + 2 * c), q);
      }
    }
  }
};

size_t linear_scratch(const LinearTask &t) { return LinearDriver<Avx2>(t, nullptr).scratch_bytes(); }
void linear(const LinearTask &t, void *scratch) { LinearDriver<Avx2>(t, scratch).run(); }

}  // namespace

bool mixed_built_avx2() { return true; }
const Mixed mixed_avx2 = {avx2_fx_add, fx_mul,       fx_requantize, avx2_fx_quantize, fx_dequantize,
                          fx_lut,      fx_from_fp16, fx_to_fp16,    linear_scratch,   linear};

}  // namespace axtool

#elif defined(__x86_64__)
namespace axtool {
bool mixed_built_avx2() { return false; }
const Mixed mixed_avx2 = {};
}  // namespace axtool
#endif
