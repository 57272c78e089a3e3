// mul on AVX2: 16-bit differences, 32-bit products, the scale in two 32-bit steps as in loops.inc. Included by
// loops_avx2.cpp inside its namespace.
#pragma once

struct MulVectors {
  __m256i zp_a, zp_b, high, low, half, zp;
  __m128i shift;
  explicit MulVectors(const MulParams &p)
      : zp_a(_mm256_set1_epi16(int16_t(p.zp_a))), zp_b(_mm256_set1_epi16(int16_t(p.zp_b))),
        high(_mm256_set1_epi32(p.m >> 14)), low(_mm256_set1_epi32(p.m & 16383)),
        half(_mm256_set1_epi32(1 << (p.f - 15))), zp(_mm256_set1_epi16(int16_t(p.out_zp))),
        shift(_mm_cvtsi32_si128(p.f - 14)) {}

  __m256i scaled(__m256i v) const {
    const __m256i rest = _mm256_add_epi32(_mm256_srai_epi32(_mm256_mullo_epi32(v, low), 14), half);
    return _mm256_sra_epi32(_mm256_add_epi32(_mm256_mullo_epi32(v, high), rest), shift);
  }

  // Sixteen results in order; the packs and the sum saturate, which no clamp to int8 can tell.
  __m256i sixteen(const int8_t *a, const int8_t *b) const {
    const __m256i da = _mm256_sub_epi16(_mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)a)), zp_a);
    const __m256i db = _mm256_sub_epi16(_mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)b)), zp_b);
    const __m256i bottom = _mm256_mullo_epi16(da, db), top = _mm256_mulhi_epi16(da, db);
    const __m256i lo = scaled(_mm256_unpacklo_epi16(bottom, top)), hi = scaled(_mm256_unpackhi_epi16(bottom, top));
    return _mm256_adds_epi16(_mm256_packs_epi32(lo, hi), zp);
  }
};

static void mul_pairs(const MulParams &p, int64_t w, int64_t n, const int8_t *a, int64_t a_pixel, const int8_t *b,
                      int64_t b_pixel, int8_t *y, int64_t y_pixel) {
  join(w, n, a_pixel == n && b_pixel == n && y_pixel == n);
  if (n < 16 || !mul_fits(p)) return mul(p, w, n, a, a_pixel, b, b_pixel, y, y_pixel);
  const MulVectors v(p);
  const __m256i lo = _mm256_set1_epi8(int8_t(p.lo)), hi = _mm256_set1_epi8(int8_t(p.hi));
  auto clamped = [&](__m256i q) { return _mm256_min_epi8(_mm256_max_epi8(q, lo), hi); };
  for (; w > 0; --w, a += a_pixel, b += b_pixel, y += y_pixel) {
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
      const __m256i q = v.sixteen(a + i, b + i);
      const __m256i bytes = clamped(_mm256_permute4x64_epi64(_mm256_packs_epi16(q, q), 0xd8));
      _mm_storeu_si128((__m128i *)(y + i), _mm256_castsi256_si128(bytes));
    }
    if (i < n) mul(p, 1, n - i, a + i, n - i, b + i, n - i, y + i, n - i);
  }
}
