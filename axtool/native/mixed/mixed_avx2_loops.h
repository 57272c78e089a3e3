// Rows of fx32 by eight: sums, and what becomes int8 or int16. Rows that the vectors do not bear go to mixed_loops.h.
#pragma once
#include <immintrin.h>

#include "mixed_loops.h"

namespace axtool {
namespace {

inline __m256i eight(const FxSource &s, int64_t i) {
  if (s.step == 0) return _mm256_set1_epi32(mixed_load<int32_t>(s.p, 0));
  return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(s.p + 4 * i));
}

// Shifts of 0 to 31 to the right: the sum of two int32 saturates, which is what bounds of 32 bits make of it.
inline void avx2_fx_add(const FxAdd &p, int64_t n, const FxSource &a, const FxSource &b, int8_t *y) {
  int64_t i = 0;
  if (p.shift_a >= 0 && p.shift_a < 32 && p.shift_b >= 0 && p.shift_b < 32) {
    const __m128i by_a = _mm_cvtsi32_si128(p.shift_a), by_b = _mm_cvtsi32_si128(p.shift_b);
    const __m256i lo = _mm256_set1_epi32(p.lo), hi = _mm256_set1_epi32(p.hi), most = _mm256_set1_epi32(INT32_MAX);
    for (; i + 8 <= n; i += 8) {
      const __m256i left = _mm256_sra_epi32(eight(a, i), by_a), right = _mm256_sra_epi32(eight(b, i), by_b);
      const __m256i sum = p.sub ? _mm256_sub_epi32(left, right) : _mm256_add_epi32(left, right);
      const __m256i other = p.sub ? _mm256_xor_si256(left, right) : _mm256_xor_si256(right, sum);
      const __m256i left_over = _mm256_and_si256(_mm256_xor_si256(left, sum), other);  // sign: it has left 32 bits
      const __m256i end = _mm256_xor_si256(_mm256_srai_epi32(left, 31), most);
      const __m256i kept = _mm256_castps_si256(
          _mm256_blendv_ps(_mm256_castsi256_ps(sum), _mm256_castsi256_ps(end), _mm256_castsi256_ps(left_over)));
      _mm256_storeu_si256(reinterpret_cast<__m256i *>(y + 4 * i), _mm256_min_epi32(_mm256_max_epi32(kept, lo), hi));
    }
  }
  if (i < n) fx_add(p, n - i, {a.p + 4 * i * a.step, a.step}, {b.p + 4 * i * b.step, b.step}, y + 4 * i);
}

// floor((floor(v / 2^shift) + 2^(rest - 1)) / 2^rest) is (v + 2^(both - 1)) >> both, both = shift + rest. From 33 on the
// result has 32 bits. v + 2^62 is not below 0: AVX2 has no signed shift of 64 bits.
inline void avx2_fx_quantize(const FxQuantize &p, int64_t n, const int8_t *x, int8_t *y, int y_bytes) {
  const int both = p.shift + p.rest;
  int64_t i = 0;
  if (both >= 33 && both <= 62) {
    const int64_t half = p.rest ? int64_t(1) << (both - 1) : 0, raised = int64_t(1) << 62;
    const __m128i by = _mm_cvtsi32_si128(both);
    const __m256i inverse = _mm256_set1_epi64x(p.inverse), offset = _mm256_set1_epi64x(int64_t(uint64_t(half) + uint64_t(raised)));
    const __m256i zero = _mm256_set1_epi32(p.out_zp - int32_t(raised >> both));
    const __m256i lo = _mm256_set1_epi32(p.lo), hi = _mm256_set1_epi32(p.hi);
    for (; i + 8 <= n; i += 8) {
      const __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(x + 4 * i));
      const __m256i even = _mm256_add_epi64(_mm256_mul_epi32(v, inverse), offset);
      const __m256i odd = _mm256_add_epi64(_mm256_mul_epi32(_mm256_srli_epi64(v, 32), inverse), offset);
      const __m256i q = _mm256_blend_epi32(_mm256_srl_epi64(even, by), _mm256_slli_epi64(_mm256_srl_epi64(odd, by), 32), 0xaa);
      const __m256i kept = _mm256_min_epi32(_mm256_max_epi32(_mm256_add_epi32(q, zero), lo), hi);
      const __m128i shorts = _mm_packs_epi32(_mm256_castsi256_si128(kept), _mm256_extracti128_si256(kept, 1));
      if (y_bytes == 2) _mm_storeu_si128(reinterpret_cast<__m128i *>(y + 2 * i), shorts);
      else _mm_storel_epi64(reinterpret_cast<__m128i *>(y + i), _mm_packs_epi16(shorts, shorts));
    }
  }
  if (i < n) fx_quantize(p, n - i, x + 4 * i, y + i * y_bytes, y_bytes);
}

}  // namespace
}  // namespace axtool
