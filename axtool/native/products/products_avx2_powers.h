// Eight scores at a time: what products_powers.h does one by one, where no mask is added and nothing is iterated.
#pragma once
#include <immintrin.h>

#include "products_powers.h"

namespace axtool {
namespace {

// The lower halves of 64-bit lanes: `even` of the lanes 0 2 4 6, `odd` of 1 3 5 7.
inline __m256i avx2_woven(__m256i even, __m256i odd) {
  return _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
}

// fx32 of 8 floats, as float_to_fx: half to even, saturating, 0 for what is no number.
inline __m256i avx2_fixed(__m256 steps) {
  const __m256 limit = _mm256_set1_ps(2147483648.0f);
  const __m256i over = _mm256_castps_si256(_mm256_cmp_ps(steps, limit, _CMP_GE_OQ));
  const __m256i number = _mm256_castps_si256(_mm256_cmp_ps(steps, steps, _CMP_ORD_Q));
  return _mm256_and_si256(_mm256_xor_si256(_mm256_cvtps_epi32(steps), over), number);
}

// 2^-exponent of differences (32 bits without sign) with `shift` more fraction bits than an exponent: 30 fraction bits.
inline __m256i avx2_powers(__m256i below, __m128i shift) {
  const __m256i factor = _mm256_set1_epi64x(kLog2E), most = _mm256_set1_epi64x(kVanished);
  __m256i even = _mm256_srl_epi64(_mm256_mul_epu32(below, factor), shift);
  __m256i odd = _mm256_srl_epi64(_mm256_mul_epu32(_mm256_srli_epi64(below, 32), factor), shift);
  even = _mm256_blendv_epi8(even, most, _mm256_cmpgt_epi64(even, most));
  odd = _mm256_blendv_epi8(odd, most, _mm256_cmpgt_epi64(odd, most));
  const __m256i exponent = _mm256_sub_epi32(_mm256_setzero_si256(), avx2_woven(even, odd));
  constexpr int rest_bits = kLogBits - kSegmentBits;
  const __m256i fraction = _mm256_and_si256(exponent, _mm256_set1_epi32((1 << kLogBits) - 1));
  const __m256i index = _mm256_srli_epi32(fraction, rest_bits);
  const __m256i rest = _mm256_and_si256(fraction, _mm256_set1_epi32((1 << rest_bits) - 1));
  const int *table = reinterpret_cast<const int *>(kPowerTable);
  const __m256i here = _mm256_i32gather_epi32(table, index, 4);
  const __m256i step = _mm256_sub_epi32(_mm256_i32gather_epi32(table + 1, index, 4), here);
  const __m256i even_rest = _mm256_srli_epi64(_mm256_mul_epu32(step, rest), rest_bits);
  const __m256i odd_rest =
      _mm256_srli_epi64(_mm256_mul_epu32(_mm256_srli_epi64(step, 32), _mm256_srli_epi64(rest, 32)), rest_bits);
  const __m256i mantissa = _mm256_add_epi32(here, avx2_woven(even_rest, odd_rest));
  const __m256i whole = _mm256_sub_epi32(_mm256_setzero_si256(), _mm256_srai_epi32(exponent, kLogBits));
  return _mm256_srlv_epi32(mantissa, whole);
}

inline int64_t avx2_largest(__m256i most) {
  alignas(32) int32_t lanes[8];
  _mm256_store_si256(reinterpret_cast<__m256i *>(lanes), most);
  return *std::max_element(lanes, lanes + 8);
}

inline int64_t row_powers_avx2(const FxScores &by, float *scores, const int32_t *mask, int64_t n, int32_t *fixed) {
  if (mask || by.iterated) return row_powers(by, scores, mask, n, fixed);
  const float fx = power_of_two(by.f);
  const __m256 scale = _mm256_set1_ps(by.scale), steps = _mm256_set1_ps(fx);
  __m256i most = _mm256_set1_epi32(INT32_MIN);
  int64_t j = 0;
  for (; j + 8 <= n; j += 8) {
    const __m256i score = avx2_fixed(_mm256_mul_ps(_mm256_mul_ps(_mm256_loadu_ps(scores + j), scale), steps));
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(fixed + j), score);
    most = _mm256_max_epi32(most, score);
  }
  int64_t largest = avx2_largest(most);
  for (; j < n; ++j) fixed[j] = float_to_fx(scores[j] * by.scale, fx), largest = std::max<int64_t>(largest, fixed[j]);

  const __m128i shift = _mm_cvtsi32_si128(kLog2EBits - kLogBits + by.f);
  const __m256i top = _mm256_set1_epi32(int32_t(largest));
  const __m256 unit = _mm256_set1_ps(power_of_two(-kPowerBits)), units_of_one = _mm256_set1_ps(16777216.0f);
  __m256i sums = _mm256_setzero_si256();
  for (j = 0; j + 8 <= n; j += 8) {
    const __m256i score = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(fixed + j));
    const __m256i power = avx2_powers(_mm256_sub_epi32(top, score), shift);
    const __m128i half = _mm256_cvtps_ph(_mm256_mul_ps(_mm256_cvtepi32_ps(power), unit), _MM_FROUND_TO_NEAREST_INT);
    const __m256 e = _mm256_cvtph_ps(half);
    _mm256_storeu_ps(scores + j, e);
    const __m256i units = _mm256_cvtps_epi32(_mm256_mul_ps(e, units_of_one));  // at most 2^24
    sums = _mm256_add_epi64(sums, _mm256_add_epi64(_mm256_and_si256(units, _mm256_set1_epi64x(0xffffffff)),
                                                    _mm256_srli_epi64(units, 32)));
  }
  alignas(32) int64_t lanes[4];
  _mm256_store_si256(reinterpret_cast<__m256i *>(lanes), sums);
  int64_t total = lanes[0] + lanes[1] + lanes[2] + lanes[3];
  for (; j < n; ++j) {
    scores[j] = half_power(largest - fixed[j], by.f, false);
    total += int64_t(scores[j] * 16777216.0f);
  }
  return total;
}

inline void widen_avx2(int64_t n, const int8_t *halves, float *y) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(y + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(halves + 2 * i))));
  widen_halves(n - i, halves + 2 * i, y + i);
}

}  // namespace
}  // namespace axtool
