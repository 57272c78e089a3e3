// AVX2: sums of up to 6 pixels x 16 channels -> numbers of one or two bytes (see wide_finish_one for the meaning).
#pragma once
#include <immintrin.h>

#include "wide_mac.h"

namespace axtool {
namespace {

inline __m256i avx2_wide_load(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }

// int32 of 8 channels -> requantized int32, where f is 31; in channel order 0 2 1 3 4 6 5 7.
inline __m256i avx2_wide_scale(const int32_t *sums, const int32_t *m) {
  const __m256i half = _mm256_set1_epi64x(int64_t(1) << 30), acc = avx2_wide_load(sums), even = avx2_wide_load(m);
  const __m256i odd = _mm256_srli_epi64(even, 32);
  const __m256i low = _mm256_srli_epi64(_mm256_add_epi64(_mm256_mul_epi32(acc, even), half), 31);
  const __m256i high =
      _mm256_srli_epi64(_mm256_add_epi64(_mm256_mul_epi32(_mm256_srli_epi64(acc, 32), odd), half), 31);
  return _mm256_castps_si256(_mm256_shuffle_ps(_mm256_castsi256_ps(low), _mm256_castsi256_ps(high), 0x88));
}

// int64 of 4 channels, below 2^51 -> requantized and limited to 2^17. With acc = a1 * 2^20 + a0 the product is
// a1 * m * 2^20 + a0 * m, and its lowest 20 bits never reach the result, for f is at least 20.
inline __m256i avx2_wide_scale(const int64_t *sums, const int32_t *m, const int32_t *f) {
  const __m256i acc = avx2_wide_load(sums);
  const __m256i m4 = _mm256_cvtepi32_epi64(_mm_loadu_si128((const __m128i *)m));
  const __m256i f4 = _mm256_cvtepi32_epi64(_mm_loadu_si128((const __m128i *)f)), one = _mm256_set1_epi64x(1);
  const __m256i half = _mm256_sllv_epi64(one, _mm256_sub_epi64(f4, one)), shift = _mm256_sub_epi64(f4, _mm256_set1_epi64x(20));
  const __m256i a1 = _mm256_srli_epi64(acc, 20), a0 = _mm256_and_si256(acc, _mm256_set1_epi64x((1 << 20) - 1));
  const __m256i low = _mm256_srli_epi64(_mm256_add_epi64(_mm256_mul_epi32(a0, m4), half), 20);
  __m256i q = _mm256_add_epi64(_mm256_mul_epi32(a1, m4), low);
  // limited before the shift, which then is a logical one that leaves 32 good bits
  const __m256i most = _mm256_sllv_epi64(_mm256_set1_epi64x(1 << 17), shift), least = _mm256_sub_epi64(_mm256_setzero_si256(), most);
  q = _mm256_blendv_epi8(q, most, _mm256_cmpgt_epi64(q, most));
  q = _mm256_blendv_epi8(q, least, _mm256_cmpgt_epi64(least, q));
  return _mm256_srlv_epi64(q, shift);
}

// Four times four int64 -> 16 int16 as `avx2_wide_scale` of 8 channels orders them, saturated.
inline __m256i avx2_wide_join(__m256i a, __m256i b) {
  // the lower halves of channels 0 1 | 2 3 and 4 5 | 6 7
  const __m256i lower = _mm256_castps_si256(_mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), 0x88));
  // 0 1 4 5 | 2 3 6 7 -> 0 2 1 3 | 4 6 5 7
  return _mm256_permutevar8x32_epi32(lower, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

// 16 sums -> int16, in order, saturated.
inline __m256i avx2_wide_shorts(const WideOut &out, const int32_t *sums) {
  const __m256i q = _mm256_packs_epi32(avx2_wide_scale(sums, out.m), avx2_wide_scale(sums + 8, out.m + 8));
  return _mm256_shufflehi_epi16(_mm256_shufflelo_epi16(_mm256_permute4x64_epi64(q, 0xd8), 0xd8), 0xd8);
}
inline __m256i avx2_wide_shorts(const WideOut &out, const int64_t *sums) {
  __m256i q[4];
  for (int i = 0; i < 4; ++i) q[i] = avx2_wide_scale(sums + 4 * i, out.m + 4 * i, out.f + 4 * i);
  const __m256i all = _mm256_packs_epi32(avx2_wide_join(q[0], q[1]), avx2_wide_join(q[2], q[3]));
  return _mm256_shufflehi_epi16(_mm256_shufflelo_epi16(_mm256_permute4x64_epi64(all, 0xd8), 0xd8), 0xd8);
}

inline bool avx2_wide_suits(const WideOut &out, const int32_t *) { return out.plain; }
inline bool avx2_wide_suits(const WideOut &out, const int64_t *) { return out.split; }

template <class Sum>
inline void avx2_wide_finish(const WideTask &task, const WideOut &out, int n, const Sum (*sums)[16], int8_t *const *y) {
  const MacTask &t = task.mac;
  if (!avx2_wide_suits(out, sums[0])) {
    for (int i = 0; i < n; ++i)
      for (int c = 0; c < out.channels; ++c) wide_finish_one(task, out, sums[i][c], c, y[i]);
    return;
  }
  const __m256i lo = _mm256_set1_epi16(int16_t(t.lo)), hi = _mm256_set1_epi16(int16_t(t.hi));
  const __m256i zp = _mm256_set1_epi16(int16_t(t.out_zp));
  for (int i = 0; i < n; ++i) {
    __m256i q = avx2_wide_shorts(out, sums[i]);
    alignas(32) int8_t stored[32];
    if (t.act) {
      alignas(32) int16_t v[16];
      _mm256_store_si256((__m256i *)v, q);
      for (int c = 0; c < out.channels; ++c) y[i][c] = mac_activate(t, v[c]);
      continue;
    }
    q = _mm256_min_epi16(_mm256_max_epi16(_mm256_adds_epi16(q, zp), lo), hi);
    if (task.out_bytes == 1) q = _mm256_permute4x64_epi64(_mm256_packs_epi16(q, q), 0x08);
    const int bytes = out.channels * task.out_bytes;
    if (bytes == 32) {
      _mm256_storeu_si256((__m256i *)y[i], q);
    } else if (bytes == 16) {
      _mm_storeu_si128((__m128i *)y[i], _mm256_castsi256_si128(q));
    } else {
      _mm256_store_si256((__m256i *)stored, q);
      memcpy(y[i], stored, size_t(bytes));
    }
  }
}

}  // namespace
}  // namespace axtool
