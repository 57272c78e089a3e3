// AVX2 depthwise tile: entries of two taps, so that vpmaddwd adds two products in each of 8 channels.
#pragma once
#include "mac_avx2_finish.h"

namespace axtool {
namespace {

struct Avx2Depthwise : Avx2Values {
  static constexpr int kPixels = 6, kTaps = 2;

  static void interleave(__m128i a, __m128i b, int16_t *dst) {
    _mm256_store_si256((__m256i *)dst, _mm256_cvtepi8_epi16(_mm_unpacklo_epi8(a, b)));
    _mm256_store_si256((__m256i *)(dst + 16), _mm256_cvtepi8_epi16(_mm_unpackhi_epi8(a, b)));
  }

  static void fill(const int8_t *line, const int8_t *next, int16_t *dst, int n, int step) {
    for (int i = 0; i < n; ++i, line += step, next += step, dst += 32)
      interleave(_mm_loadu_si128((const __m128i *)line), _mm_loadu_si128((const __m128i *)next), dst);
  }

  static void prepare(const int8_t *w0, const int8_t *w1, int16_t *dst) {
    interleave(_mm_loadu_si128((const __m128i *)w0),
               w1 ? _mm_loadu_si128((const __m128i *)w1) : _mm_setzero_si128(), dst);
  }

  template <int N>
  static void tile_of(const MacTask &t, const int16_t *p, int64_t step, const int32_t *taps, int count,
                      const int16_t *w, const BlockOut &out, int8_t *y) {
    __m256i acc[N][2];
    for (int i = 0; i < N; ++i) acc[i][0] = avx2_load(out.bias), acc[i][1] = avx2_load(out.bias + 8);
    for (int k = 0; k < count; ++k, w += 32) {
      const __m256i w0 = _mm256_load_si256((const __m256i *)w), w1 = _mm256_load_si256((const __m256i *)(w + 16));
      const int16_t *x = p + taps[k];
      for (int i = 0; i < N; ++i, x += step) {
        acc[i][0] = _mm256_add_epi32(acc[i][0], _mm256_madd_epi16(w0, _mm256_load_si256((const __m256i *)x)));
        acc[i][1] = _mm256_add_epi32(acc[i][1], _mm256_madd_epi16(w1, _mm256_load_si256((const __m256i *)(x + 16))));
      }
    }
    __m256i sums[N][2];
    int8_t *to[N];
    for (int i = 0; i < N; ++i) sums[i][0] = acc[i][0], sums[i][1] = acc[i][1], to[i] = y + i * t.y_pixel;
    avx2_finish(t, out, N, sums, to, 0);
  }

  static void tile(const MacTask &t, int n, const int16_t *p, int64_t step, const int32_t *taps, int count,
                   const int16_t *w, const BlockOut &out, int8_t *y) {
    switch (n) {
      case 1: return tile_of<1>(t, p, step, taps, count, w, out, y);
      case 2: return tile_of<2>(t, p, step, taps, count, w, out, y);
      case 3: return tile_of<3>(t, p, step, taps, count, w, out, y);
      case 4: return tile_of<4>(t, p, step, taps, count, w, out, y);
      case 5: return tile_of<5>(t, p, step, taps, count, w, out, y);
      default: return tile_of<6>(t, p, step, taps, count, w, out, y);
    }
  }
};
}  // namespace
}  // namespace axtool
