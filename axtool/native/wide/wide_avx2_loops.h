// AVX2: 8 numbers at a time of the loops in wide_loops.h, which do what is left over and the scales that are not here.
// A product is made in 64 bits of the even and of the odd numbers; its lower half after the shift is the result wherever
// that fits 32 bits, which the conditions on f see to.
#pragma once
#include <immintrin.h>

#include "wide_loops.h"

namespace axtool {
namespace {

template <int bytes>
inline __m256i avx2_numbers(const int8_t *p, int64_t i) {
  if (bytes == 1) return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(p + i)));
  return _mm256_cvtepi16_epi32(_mm_loadu_si128((const __m128i *)(p + 2 * i)));
}
template <int bytes>
inline __m256i avx2_numbers(const WideSource &x, int64_t i) {
  return x.step ? avx2_numbers<bytes>(x.p, i) : _mm256_set1_epi32(wide_load<bytes>(x.p, 0));
}

inline __m256i avx2_upper(__m256i v) { return _mm256_srli_epi64(v, 32); }
inline __m256i avx2_both(__m256i even, __m256i odd) { return _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa); }

// What the 8 results are limited to on their way out.
struct Avx2Limits {
  __m128i zp, lo, hi;
  Avx2Limits(int32_t out_zp, int32_t least, int32_t most)
      : zp(_mm_set1_epi16(int16_t(out_zp))), lo(_mm_set1_epi16(int16_t(least))), hi(_mm_set1_epi16(int16_t(most))) {}
};

// A zero point comes with bytes, so that sums which int16 saturates are out of bounds anyway.
template <int bytes>
inline void avx2_put(const Avx2Limits &limits, __m256i q, int8_t *p, int64_t i) {
  const __m128i both = _mm_packs_epi32(_mm256_castsi256_si128(q), _mm256_extracti128_si256(q, 1));
  const __m128i v = _mm_min_epi16(_mm_max_epi16(_mm_adds_epi16(both, limits.zp), limits.lo), limits.hi);
  if (bytes == 1) _mm_storel_epi64((__m128i *)(p + i), _mm_packs_epi16(v, v));
  else _mm_storeu_si128((__m128i *)(p + 2 * i), v);
}

// (v * m + half) >> f, its lower 32 bits
struct Avx2Scaling {
  __m256i m, half;
  __m128i f;
  Avx2Scaling(int32_t scale, int32_t shift)
      : m(_mm256_set1_epi64x(scale)), half(_mm256_set1_epi64x(shift ? int64_t(1) << (shift - 1) : 0)),
        f(_mm_cvtsi32_si128(shift)) {}
  __m256i of(__m256i v) const {
    const __m256i even = _mm256_srl_epi64(_mm256_add_epi64(_mm256_mul_epi32(v, m), half), f);
    const __m256i odd = _mm256_srl_epi64(_mm256_add_epi64(_mm256_mul_epi32(avx2_upper(v), m), half), f);
    return avx2_both(even, odd);
  }
};

inline WideSource avx2_rest(const WideSource &x, int64_t i) { return {x.p + i * x.step * x.bytes, x.bytes, x.step}; }
inline WideSink avx2_rest(const WideSink &y, int64_t i) { return {y.p + i * y.bytes, y.bytes}; }

inline void avx2_wide_requantize(const WideRequant &p, int64_t n, const WideSource &x, const WideSink &y) {
  int64_t i = 0;
  if (p.f >= 16) with_bytes(x.bytes, y.bytes, [&](auto of_x, auto of_y) {  // |x - zp| < 2^16, scales under 2^15
      const Avx2Scaling scaling(p.m, p.f);
      const Avx2Limits limits(p.out_zp, p.lo, p.hi);
      const __m256i zp = _mm256_set1_epi32(p.x_zp);
      for (; i + 8 <= n; i += 8) {
        const __m256i v = _mm256_sub_epi32(avx2_numbers<of_x.value>(x, i), zp);
        avx2_put<of_y.value>(limits, scaling.of(v), y.p, i);
      }
    });
  wide_requantize(p, n - i, avx2_rest(x, i), avx2_rest(y, i));
}

inline void avx2_wide_mul(const MulParams &p, int64_t n, const WideSource &a, const WideSource &b, const WideSink &y) {
  int64_t i = 0;
  const int product_bits = a.bytes + b.bytes == 2 ? 16 : a.bytes + b.bytes == 3 ? 23 : 30;
  if (p.f >= product_bits) with_bytes(a.bytes, b.bytes, y.bytes, [&](auto of_a, auto of_b, auto of_y) {
      const Avx2Scaling scaling(p.m, p.f);
      const Avx2Limits limits(p.out_zp, p.lo, p.hi);
      const __m256i zp_a = _mm256_set1_epi32(p.zp_a), zp_b = _mm256_set1_epi32(p.zp_b);
      for (; i + 8 <= n; i += 8) {
        const __m256i left = _mm256_sub_epi32(avx2_numbers<of_a.value>(a, i), zp_a);
        const __m256i right = _mm256_sub_epi32(avx2_numbers<of_b.value>(b, i), zp_b);
        avx2_put<of_y.value>(limits, scaling.of(_mm256_mullo_epi32(left, right)), y.p, i);
      }
    });
  wide_mul(p, n - i, avx2_rest(a, i), avx2_rest(b, i), avx2_rest(y, i));
}

// ((q - zp) * m) >> shift, floored, plus 2^62 >> shift: a shift of 64 bits is a logical one.
struct Avx2Term {
  __m256i zp, m;
  __m128i shift;
  explicit Avx2Term(const Term &t)
      : zp(_mm256_set1_epi32(t.zp)), m(_mm256_set1_epi64x(t.m)), shift(_mm_cvtsi32_si128(t.shift)) {}
  __m256i of(__m256i difference) const {
    const __m256i product = _mm256_mul_epi32(difference, m);
    return _mm256_srl_epi64(_mm256_add_epi64(product, _mm256_set1_epi64x(int64_t(1) << 62)), shift);
  }
};

inline void avx2_wide_add(const AddParams &p, int64_t n, const WideSource &a, const WideSource &b, const WideSink &y) {
  int64_t i = 0;
  if (p.a.shift >= 1 && p.b.shift >= 1)  // terms under 2^46, so the sum is under 2^31 in the end
    with_bytes(a.bytes, b.bytes, y.bytes, [&](auto of_a, auto of_b, auto of_y) {
      const Avx2Term left(p.a), right(p.b);
      const Avx2Limits limits(p.out_zp, p.lo, p.hi);
      const int64_t over_a = int64_t(1) << (62 - p.a.shift), over_b = int64_t(1) << (62 - p.b.shift);
      const __m256i rest = _mm256_set1_epi64x(32768 - over_a - (p.sub ? -over_b : over_b));
      const __m256i sign = _mm256_set1_epi64x(p.sub ? -1 : 0);  // (t ^ sign) - sign negates
      auto total = [&](__m256i da, __m256i db) {
        const __m256i other = _mm256_sub_epi64(_mm256_xor_si256(right.of(db), sign), sign);
        return _mm256_srli_epi64(_mm256_add_epi64(_mm256_add_epi64(left.of(da), other), rest), 16);
      };
      for (; i + 8 <= n; i += 8) {
        const __m256i da = _mm256_sub_epi32(avx2_numbers<of_a.value>(a, i), left.zp);
        const __m256i db = _mm256_sub_epi32(avx2_numbers<of_b.value>(b, i), right.zp);
        avx2_put<of_y.value>(limits, avx2_both(total(da, db), total(avx2_upper(da), avx2_upper(db))), y.p, i);
      }
    });
  wide_add(p, n - i, avx2_rest(a, i), avx2_rest(b, i), avx2_rest(y, i));
}

// Interpolated between int32 entries: an entry and the next are one load of 64 bits.
inline void avx2_wide_lut(const int8_t *table, int32_t lo, int32_t hi, int64_t n, const WideSource &x, const WideSink &y) {
  int64_t i = 0;
  if (x.bytes == 2) with_bytes(y.bytes, [&](auto of_y) {
      const Avx2Limits limits(0, lo, hi);
      const __m256i all = _mm256_set1_epi64x(64), half = _mm256_set1_epi64x(1 << 12);
      auto four = [&](__m128i v) {  // of 4 int32 arguments
        alignas(16) int32_t at[4];
        _mm_store_si128((__m128i *)at, _mm_srai_epi32(v, 6));
        const __m256i fr = _mm256_cvtepi32_epi64(_mm_and_si128(v, _mm_set1_epi32(63)));
        auto pair = [&](int k) { return (const double *)(table + (at[k] + 512) * int64_t(4)); };
        const __m128d low = _mm_loadh_pd(_mm_load_sd(pair(0)), pair(1)), high = _mm_loadh_pd(_mm_load_sd(pair(2)), pair(3));
        const __m256i entries = _mm256_castpd_si256(_mm256_insertf128_pd(_mm256_castpd128_pd256(low), high, 1));
        const __m256i left = _mm256_mul_epi32(entries, _mm256_sub_epi64(all, fr));
        const __m256i right = _mm256_mul_epi32(avx2_upper(entries), fr);
        return _mm256_srli_epi64(_mm256_add_epi64(_mm256_add_epi64(left, right), half), 13);
      };
      for (; i + 8 <= n; i += 8) {
        const __m256i v = avx2_numbers<2>(x, i);
        const __m256i q = _mm256_castps_si256(_mm256_shuffle_ps(  // 0 1 4 5 | 2 3 6 7
            _mm256_castsi256_ps(four(_mm256_castsi256_si128(v))),
            _mm256_castsi256_ps(four(_mm256_extracti128_si256(v, 1))), 0x88));
        avx2_put<of_y.value>(limits, _mm256_permute4x64_epi64(q, 0xd8), y.p, i);
      }
    });
  wide_lut(table, lo, hi, n - i, avx2_rest(x, i), avx2_rest(y, i));
}

}  // namespace
}  // namespace axtool
