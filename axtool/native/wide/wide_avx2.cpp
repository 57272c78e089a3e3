// The wide ops for AVX2. Empty where the compiler is not asked for it.
#include "wide.h"

#if defined(__AVX2__)
#include <immintrin.h>

#include "../mac/mac_avx2_sums.h"
#include "wide_avx2_finish.h"
#include "wide_avx2_loops.h"
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
  static __m256i low_pair(__m256i v) {
    const __m128i bytes = _mm_setr_epi8(-1, 0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13);
    return _mm256_srai_epi16(_mm256_shuffle_epi8(v, _mm256_broadcastsi128_si256(bytes)), 8);
  }
  static __m256i high_pair(__m256i v) {
    const __m128i bytes = _mm_setr_epi8(-1, 2, -1, 3, -1, 6, -1, 7, -1, 10, -1, 11, -1, 14, -1, 15);
    return _mm256_srai_epi16(_mm256_shuffle_epi8(v, _mm256_broadcastsi128_si256(bytes)), 8);
  }

  static void prepare(const int8_t *src, int16_t *dst, int quads) {
    for (int q = 0; q < quads; ++q, src += 64, dst += 64)
      for (int half = 0; half < 2; ++half) {
        const __m256i v = avx2_wide_load(src + 32 * half);
        _mm256_store_si256((__m256i *)(dst + 16 * half), low_pair(v));
        _mm256_store_si256((__m256i *)(dst + 32 + 16 * half), high_pair(v));
      }
  }

  static void sums(int n, const int16_t *const *p, const MacRun *runs, int count, const int16_t *w,
                   const int32_t *start, int32_t (*sums)[16]) {
    avx2_sums(n, p, runs, count, w, start, reinterpret_cast<__m256i(*)[2]>(sums));
  }

  // Few pixels: each weight is widened where it is used.
  static constexpr int kFew = 3;
  template <int n>
  static void few_sums_of(const int16_t *const *p, const MacRun *runs, int count, const int8_t *w, const int32_t *start,
                          int32_t (*sums)[16]) {
    __m256i acc[n][4];
    for (int i = 0; i < n; ++i) {
      acc[i][0] = avx2_wide_load(start), acc[i][1] = avx2_wide_load(start + 8);
      acc[i][2] = acc[i][3] = _mm256_setzero_si256();
    }
    for (int r = 0; r < count; ++r) {
      const int8_t *at = w + int64_t(runs[r].w) * 64;
      for (int x = runs[r].x, end = x + runs[r].quads * 4; x < end; x += 4, at += 64) {
        const __m256i a = avx2_wide_load(at), b = avx2_wide_load(at + 32);
        const __m256i weights[4] = {low_pair(a), low_pair(b), high_pair(a), high_pair(b)};
        _mm_prefetch((const char *)at + 1024, _MM_HINT_T0);  // they come from memory once: be there first
        for (int i = 0; i < n; ++i) {
          int32_t pair[2];
          memcpy(pair, p[i] + x, 8);
          for (int j = 0; j < 4; ++j)
            acc[i][j] = _mm256_add_epi32(acc[i][j], _mm256_madd_epi16(_mm256_set1_epi32(pair[j / 2]), weights[j]));
        }
      }
    }
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < 2; ++j)
        _mm256_store_si256((__m256i *)(sums[i] + 8 * j), _mm256_add_epi32(acc[i][j], acc[i][j + 2]));
  }

  static void few_sums(int n, const int16_t *const *p, const MacRun *runs, int count, const int8_t *w,
                       const int32_t *start, int32_t (*sums)[16]) {
    switch (n) {
      case 1: return few_sums_of<1>(p, runs, count, w, start, sums);
      case 2: return few_sums_of<2>(p, runs, count, w, start, sums);
      default: return few_sums_of<3>(p, runs, count, w, start, sums);
    }
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

const Wide wide_avx2 = {mac_scratch,          mac,           avx2_wide_add, avx2_wide_mul,
                        avx2_wide_requantize, avx2_wide_lut, wide_sum,      wide_finish};

}  // namespace axtool
#endif
