// AVX-512: sums of n pixels x 16 channels -> bytes (see mac_finish for the meaning; the steps are those of AVX2).
#pragma once
#include "mac_block.h"

namespace axtool {
namespace {

struct Avx512Scale {
  __m512i even, odd;
  explicit Avx512Scale(const int32_t *params)
      : even(_mm512_loadu_si512(params + 16)), odd(_mm512_srli_epi64(even, 32)) {}
};

// f == 31 in every lane: the result is bits 31..62 of the product.
inline __m512i avx512_scale31(__m512i acc, const Avx512Scale &s) {
  const __m512i half = _mm512_set1_epi64(int64_t(1) << 30);
  const __m512i even = _mm512_add_epi64(_mm512_mul_epi32(acc, s.even), half);
  const __m512i odd = _mm512_add_epi64(_mm512_mul_epi32(_mm512_srli_epi64(acc, 32), s.odd), half);
  return _mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 31), _mm512_add_epi64(odd, odd));
}

inline __m512i avx512_limit(__m512i v, int lo, int hi) {
  return _mm512_min_epi32(_mm512_max_epi32(v, _mm512_set1_epi32(lo)), _mm512_set1_epi32(hi));
}

inline __m512i avx512_interpolate(const int16_t *table, __m512i v) {
  v = avx512_limit(v, -32768, 32767);
  const __m512i at = _mm512_srai_epi32(v, 6), fr = _mm512_and_si512(v, _mm512_set1_epi32(63));
  const __m512i pair = _mm512_i32gather_epi32(at, table + 512, 2);
  // (64 - fr) + fr * 2^16
  const __m512i weights = _mm512_add_epi32(_mm512_sub_epi32(_mm512_slli_epi32(fr, 16), fr), _mm512_set1_epi32(64));
  return _mm512_srai_epi32(_mm512_add_epi32(_mm512_madd_epi16(pair, weights), _mm512_set1_epi32(1 << 12)), 13);
}

template <bool kAct>
inline void avx512_finish_as(const MacTask &t, const BlockOut &out, int n, const __m512i *acc, int8_t *const *y,
                             int c) {
  const Avx512Scale scale(out.params);
  const __m512i zp = _mm512_set1_epi32(t.out_zp);
  const __mmask16 stored = __mmask16((1u << out.channels) - 1);
  for (int i = 0; i < n; ++i) {
    __m512i v = avx512_scale31(acc[i], scale);
    // +-2^16 tells a clamp to bytes nothing, and keeps the sum with zp from wrapping
    v = kAct ? avx512_interpolate(t.table, v) : _mm512_add_epi32(avx512_limit(v, -65536, 65536), zp);
    const __m128i q = _mm512_cvtepi32_epi8(avx512_limit(v, t.lo, t.hi));
    _mm_mask_storeu_epi8(y[i] + c, stored, q);
  }
}

// acc: n sums; they go to y + c. Blocks with an f other than 31
// (scales of 1 and more) are rare: they take the plain road.
inline void avx512_finish(const MacTask &t, const BlockOut &out, int n, const __m512i *acc, int8_t *const *y, int c) {
  if (out.min_f == 31 && out.max_f == 31)
    return t.act ? avx512_finish_as<true>(t, out, n, acc, y, c) : avx512_finish_as<false>(t, out, n, acc, y, c);
  int32_t sums[16];
  for (int i = 0; i < n; ++i) {
    _mm512_storeu_si512(sums, acc[i]);
    for (int k = 0; k < out.channels; ++k) y[i][c + k] = mac_finish(t, sums[k], out.params[16 + k], out.params[32 + k]);
  }
}
}  // namespace
}  // namespace axtool
