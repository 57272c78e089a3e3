// AVX2: the transforms of Winograd's F(2x2, 3x3) and F(4x4, 3x3), in integers modulo 2^32.
//
// A form makes kTile x kTile outputs of kIn x kIn inputs with kIn * kIn products a channel. Along one axis:
//   input(d, step, v, out)       kIn inputs, step apart -> kIn numbers, out apart
//   weights(g0, g1, g2, u, out)  3 weights -> kIn numbers
//   output(m, step, y, out)      kIn products -> kTile outputs, each times a number that exact() takes away again
// All numbers of weights and inputs fit int16, so that a sum of two products fits int32. Their sums may leave int32:
// only what exact() shifts must be in range, which kMaxChannels sees to: |sum| <= 9 * 2^14 * channels.
#pragma once
#include <immintrin.h>

#include "mac_scalar.h"

namespace axtool {
namespace {

// The weight matrix is doubled; the result is 4 times the sum. |B^T d B| <= 512, |G g G^T| <= 1152.
struct Winograd2 {
  static constexpr int kTile = 2, kIn = 4, kMaxChannels = 3640, kLeastChannels = 24;
  static constexpr int64_t kInputBytes = 160 << 10;
  static constexpr int kLeastTiles = 64, kChunk = 24;

  static void input(const __m256i *d, int step, __m256i *v, int out) {
    v[0] = _mm256_sub_epi16(d[0], d[2 * step]);
    v[out] = _mm256_add_epi16(d[step], d[2 * step]);
    v[2 * out] = _mm256_sub_epi16(d[2 * step], d[step]);
    v[3 * out] = _mm256_sub_epi16(d[step], d[3 * step]);
  }

  static void weights(__m256i g0, __m256i g1, __m256i g2, __m256i *u, int out) {
    const __m256i outer = _mm256_add_epi16(g0, g2);
    u[0] = _mm256_add_epi16(g0, g0);
    u[out] = _mm256_add_epi16(outer, g1);
    u[2 * out] = _mm256_sub_epi16(outer, g1);
    u[3 * out] = _mm256_add_epi16(g2, g2);
  }

  static void output(const __m256i *m, int step, __m256i *y, int out) {
    y[0] = _mm256_add_epi32(_mm256_add_epi32(m[0], m[step]), m[2 * step]);
    y[out] = _mm256_sub_epi32(_mm256_sub_epi32(m[step], m[2 * step]), m[3 * step]);
  }

  static __m256i exact(__m256i y, int, int) { return _mm256_srai_epi32(y, 2); }
};

// Points 0, 1, -1, 2, -2 and infinity. The fractions of the weight matrix, 1/24 (6, -4, -4, 1, 1, 24), are left to the
// output, but for the 6 of the first and the last row. Outputs then are 24, 12, 6 and 6 times the sum: the factors 3
// are divided out modulo 2^32, the others shifted. |B^T d B| <= 100 * 128, |G g G^T| <= 49 * 128.
struct Winograd4 {
  static constexpr int kTile = 4, kIn = 6, kMaxChannels = 227, kLeastChannels = 8;  // 2^6 * 9 * 2^14 * 227 < 2^31
  static constexpr int64_t kInputBytes = 320 << 10;
  static constexpr int kLeastTiles = 40, kChunk = 18;

  static void input(const __m256i *d, int step, __m256i *v, int out) {
    const __m256i a = _mm256_sub_epi16(d[4 * step], _mm256_slli_epi16(d[2 * step], 2));
    const __m256i b = _mm256_sub_epi16(d[3 * step], _mm256_slli_epi16(d[step], 2));
    const __m256i c = _mm256_sub_epi16(d[4 * step], d[2 * step]), e = _mm256_sub_epi16(d[3 * step], d[step]);
    const __m256i e2 = _mm256_add_epi16(e, e);
    v[0] = _mm256_add_epi16(_mm256_slli_epi16(_mm256_sub_epi16(d[0], d[2 * step]), 2), c);  // 4 d0 - 5 d2 + d4
    v[out] = _mm256_add_epi16(a, b);
    v[2 * out] = _mm256_sub_epi16(a, b);
    v[3 * out] = _mm256_add_epi16(c, e2);
    v[4 * out] = _mm256_sub_epi16(c, e2);
    v[5 * out] = _mm256_sub_epi16(_mm256_sub_epi16(d[5 * step], d[3 * step]), _mm256_add_epi16(e2, e2));
  }

  static void weights(__m256i g0, __m256i g1, __m256i g2, __m256i *u, int out) {
    const __m256i six = _mm256_set1_epi16(6);
    const __m256i outer = _mm256_add_epi16(g0, g2), far = _mm256_add_epi16(g0, _mm256_slli_epi16(g2, 2));
    const __m256i twice = _mm256_add_epi16(g1, g1);
    u[0] = _mm256_mullo_epi16(g0, six);
    u[out] = _mm256_add_epi16(outer, g1);
    u[2 * out] = _mm256_sub_epi16(outer, g1);
    u[3 * out] = _mm256_add_epi16(far, twice);
    u[4 * out] = _mm256_sub_epi16(far, twice);
    u[5 * out] = _mm256_mullo_epi16(g2, six);
  }

  static void output(const __m256i *m, int step, __m256i *y, int out) {
    const __m256i e = _mm256_add_epi32(m[step], m[2 * step]), o = _mm256_sub_epi32(m[step], m[2 * step]);
    const __m256i p = _mm256_add_epi32(m[3 * step], m[4 * step]), q = _mm256_sub_epi32(m[3 * step], m[4 * step]);
    y[0] = _mm256_add_epi32(_mm256_sub_epi32(m[0], _mm256_slli_epi32(e, 2)), p);
    y[out] = _mm256_sub_epi32(q, _mm256_add_epi32(o, o));
    y[2 * out] = _mm256_sub_epi32(p, e);
    y[3 * out] = _mm256_add_epi32(_mm256_sub_epi32(_mm256_add_epi32(q, q), o), m[5 * step]);
  }

  static __m256i exact(__m256i y, int row, int col) {
    constexpr int kTwos[] = {3, 2, 1, 1};
    const __m256i ninth = _mm256_set1_epi32(954437177);  // 9 * 954437177 = 2^33 + 1
    return _mm256_srai_epi32(_mm256_mullo_epi32(y, ninth), kTwos[row] + kTwos[col]);
  }
};
}  // namespace
}  // namespace axtool
