// The wide ops for AVX2. Empty where the compiler is not asked for it.
#include "wide.h"

#if defined(__AVX2__)
#include <immintrin.h>

#include "../mac/mac_avx2_sums.h"
#include "wide_avx2_finish.h"
#include "wide_loops.h"
#include "wide_mac.h"

namespace axtool {
namespace {

struct Avx2Wide {
  static constexpr int kPixels = 6;

  static void expand(int x_bytes, const int8_t *src, int16_t *dst, int n) {
    if (x_bytes == 2) {
      memcpy(dst, src, size_t(n) * 2);
      return;
    }
    int i = 0;
    for (; i + 16 <= n; i += 16)
      _mm256_storeu_si256((__m256i *)(dst + i), _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(src + i))));
    for (; i < n; ++i) dst[i] = src[i];
  }

  // Bytes 0, 1 (2, 3) of each dword as two int16: to the upper byte of a word, then an arithmetic shift.
  static void prepare(const int8_t *src, int16_t *dst, int quads) {
    const __m256i lows = _mm256_broadcastsi128_si256(_mm_setr_epi8(-1, 0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13));
    const __m256i highs = _mm256_broadcastsi128_si256(_mm_setr_epi8(-1, 2, -1, 3, -1, 6, -1, 7, -1, 10, -1, 11, -1, 14, -1, 15));
    for (int q = 0; q < quads; ++q, src += 64, dst += 64)
      for (int half = 0; half < 2; ++half) {
        const __m256i v = _mm256_loadu_si256((const __m256i *)(src + 32 * half));
        _mm256_store_si256((__m256i *)(dst + 16 * half), _mm256_srai_epi16(_mm256_shuffle_epi8(v, lows), 8));
        _mm256_store_si256((__m256i *)(dst + 32 + 16 * half), _mm256_srai_epi16(_mm256_shuffle_epi8(v, highs), 8));
      }
  }

  static void sums(int n, const int16_t *const *p, const MacRun *runs, int count, const int16_t *w,
                   const int32_t *start, int32_t (*sums)[16]) {
    avx2_sums(n, p, runs, count, w, start, reinterpret_cast<__m256i(*)[2]>(sums));
  }

  // Channels 0-3, 8-11 and 4-7, 12-15: as the pairs of two rows of numbers are unpacked.
  static void prepare_taps(const int8_t *src, int16_t *dst, int taps) {
    for (int i = 0; i < taps; i += 2, dst += 32) {
      const __m256i a = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(src + 16 * i)));
      const __m256i b = i + 1 < taps ? _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(src + 16 * i + 16)))
                                     : _mm256_setzero_si256();
      _mm256_store_si256((__m256i *)dst, _mm256_unpacklo_epi16(a, b));
      _mm256_store_si256((__m256i *)(dst + 16), _mm256_unpackhi_epi16(a, b));
    }
  }

  template <int n>
  static void tap_sums_of(const int16_t *const *p, const int64_t *at, int pairs, const int16_t *w,
                          const int32_t *start, int32_t (*sums)[16]) {
    __m256i low[n], high[n];
    const __m256i a = _mm256_loadu_si256((const __m256i *)start), b = _mm256_loadu_si256((const __m256i *)(start + 8));
    for (int i = 0; i < n; ++i)
      low[i] = _mm256_permute2x128_si256(a, b, 0x20), high[i] = _mm256_permute2x128_si256(a, b, 0x31);
    for (int k = 0; k < pairs; ++k, w += 32) {
      const __m256i w0 = _mm256_load_si256((const __m256i *)w), w1 = _mm256_load_si256((const __m256i *)(w + 16));
      for (int i = 0; i < n; ++i) {
        const __m256i x0 = _mm256_loadu_si256((const __m256i *)(p[i] + at[2 * k]));
        const __m256i x1 = _mm256_loadu_si256((const __m256i *)(p[i] + at[2 * k + 1]));
        low[i] = _mm256_add_epi32(low[i], _mm256_madd_epi16(_mm256_unpacklo_epi16(x0, x1), w0));
        high[i] = _mm256_add_epi32(high[i], _mm256_madd_epi16(_mm256_unpackhi_epi16(x0, x1), w1));
      }
    }
    for (int i = 0; i < n; ++i) {
      _mm256_store_si256((__m256i *)sums[i], _mm256_permute2x128_si256(low[i], high[i], 0x20));
      _mm256_store_si256((__m256i *)(sums[i] + 8), _mm256_permute2x128_si256(low[i], high[i], 0x31));
    }
  }

  static void tap_sums(int n, const int16_t *const *p, const int64_t *at, int pairs, const int16_t *w,
                       const int32_t *start, int32_t (*sums)[16]) {
    int i = 0;
    for (; i + 3 <= n; i += 3) tap_sums_of<3>(p + i, at, pairs, w, start, sums + i);
    for (; i < n; ++i) tap_sums_of<1>(p + i, at, pairs, w, start, sums + i);
  }

  template <class Sum>
  static void finish(const WideTask &t, const WideOut &out, int n, const Sum (*sums)[16], int8_t *const *y) {
    avx2_wide_finish(t, out, n, sums, y);
  }
};

size_t mac_scratch(const WideTask &t) { return WideDriver<Avx2Wide>(t, nullptr).scratch_bytes; }
void mac(const WideTask &t, void *scratch) { WideDriver<Avx2Wide>(t, scratch).run(); }

}  // namespace

const Wide wide_avx2 = {mac_scratch, mac, wide_add, wide_mul, wide_requantize, wide_lut, wide_sum, wide_finish};

}  // namespace axtool
#endif
