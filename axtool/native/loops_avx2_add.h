// add on AVX2: both products of a pair in one instruction. Included by loops_avx2.cpp inside its namespace.
//
// A term is floor(d * m / 2^s), d = q - zp, with 16 fraction bits. Write m = (whole * 2^16 + part) * 2^s + rest with
// part in int16 and rest / 2^s = low / 2^16 with low in int16 (a low of 2^15 or more borrows 1 from part). Then
//   term = d * whole * 2^16 + d * part + floor(d * low / 2^16),
// the last being what _mm256_mulhi_epi16 gives, and after the final shift by 16 the first adds d * whole exactly.
#pragma once

struct AddOperand {
  int16_t zp, whole, part, low;
};

static bool add_operand(const Term &t, bool negative, AddOperand *o) {
  if (t.shift < 0 || t.shift > 16) return false;
  int64_t high = int64_t(t.m) >> t.shift;
  int64_t low = (t.m - (high << t.shift)) << (16 - t.shift);
  if (low >= 32768) low -= 65536, ++high;
  const int64_t whole = (high + 32768) >> 16, part = high - (whole << 16);
  if (whole > 60) return false;  // d * whole and its neighbour must stay in 16 bits
  *o = {int16_t(t.zp), int16_t(negative ? -whole : whole), int16_t(negative ? -part : part), int16_t(low)};
  return negative ? part != -32768 : true;
}

static inline __m256i pair_of(int16_t first, int16_t second) {
  return _mm256_set1_epi32(int32_t(uint32_t(uint16_t(first)) | uint32_t(uint16_t(second)) << 16));
}

struct AddVectors {
  __m256i zp_a, zp_b, low_a, low_b, whole_a, whole_b, parts, half, ones, zp, sign;
  AddVectors(const AddParams &p, const AddOperand &a, const AddOperand &b)
      : zp_a(_mm256_set1_epi16(a.zp)), zp_b(_mm256_set1_epi16(b.zp)), low_a(_mm256_set1_epi16(a.low)),
        low_b(_mm256_set1_epi16(b.low)), whole_a(_mm256_set1_epi16(a.whole)), whole_b(_mm256_set1_epi16(b.whole)),
        parts(pair_of(a.part, b.part)), half(_mm256_set1_epi16(16384)), ones(pair_of(1, 2)),
        zp(_mm256_set1_epi16(int16_t(p.out_zp))), sign(_mm256_set1_epi16(p.sub ? -1 : 1)) {}

  // Sixteen results before the clamp, in order.
  __m256i sixteen(const int8_t *a, const int8_t *b) const {
    const __m256i da = _mm256_sub_epi16(_mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)a)), zp_a);
    const __m256i db = _mm256_sub_epi16(_mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)b)), zp_b);
    const __m256i rest_b = _mm256_sign_epi16(_mm256_mulhi_epi16(db, low_b), sign);
    const __m256i rest = _mm256_add_epi16(_mm256_mulhi_epi16(da, low_a), rest_b);
    __m256i lo = _mm256_madd_epi16(_mm256_unpacklo_epi16(da, db), parts);
    __m256i hi = _mm256_madd_epi16(_mm256_unpackhi_epi16(da, db), parts);
    lo = _mm256_add_epi32(lo, _mm256_madd_epi16(_mm256_unpacklo_epi16(rest, half), ones));  // rest + 2^15
    hi = _mm256_add_epi32(hi, _mm256_madd_epi16(_mm256_unpackhi_epi16(rest, half), ones));
    const __m256i q = _mm256_packs_epi32(_mm256_srai_epi32(lo, 16), _mm256_srai_epi32(hi, 16));
    const __m256i whole = _mm256_add_epi16(_mm256_mullo_epi16(da, whole_a), _mm256_mullo_epi16(db, whole_b));
    return _mm256_add_epi16(_mm256_add_epi16(q, whole), zp);
  }
};

static void add_pairs(const AddParams &p, int64_t w, int64_t n, const int8_t *a, int64_t a_pixel, const int8_t *b,
                      int64_t b_pixel, int8_t *y, int64_t y_pixel) {
  AddOperand oa, ob;
  join(w, n, a_pixel == n && b_pixel == n && y_pixel == n);
  if (n < 16 || !add_operand(p.a, false, &oa) || !add_operand(p.b, p.sub, &ob))
    return add(p, w, n, a, a_pixel, b, b_pixel, y, y_pixel);
  const AddVectors v(p, oa, ob);
  const __m256i lo = _mm256_set1_epi8(int8_t(p.lo)), hi = _mm256_set1_epi8(int8_t(p.hi));
  auto clamped = [&](__m256i q) { return _mm256_min_epi8(_mm256_max_epi8(q, lo), hi); };
  for (; w > 0; --w, a += a_pixel, b += b_pixel, y += y_pixel) {
    int64_t i = 0;
    for (; i + 32 <= n; i += 32) {
      const __m256i q = _mm256_packs_epi16(v.sixteen(a + i, b + i), v.sixteen(a + i + 16, b + i + 16));
      _mm256_storeu_si256((__m256i *)(y + i), clamped(_mm256_permute4x64_epi64(q, 0xd8)));
    }
    for (; i + 16 <= n; i += 16) {
      const __m256i q = v.sixteen(a + i, b + i);
      const __m256i bytes = clamped(_mm256_permute4x64_epi64(_mm256_packs_epi16(q, q), 0xd8));
      _mm_storeu_si128((__m128i *)(y + i), _mm256_castsi256_si128(bytes));
    }
    if (i < n) add(p, 1, n - i, a + i, n - i, b + i, n - i, y + i, n - i);
  }
}
