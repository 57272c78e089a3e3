// AVX-512: sums of n pixels x 16 or 32 channels -> bytes (see mac_finish for the meaning).
//
// All that follows the scaling works on twice the result, rounded down: twice = floor(acc * m / 2^(f - 1)), and
// (twice + 1) >> 1 is the result. With acc and m shifted left by 33 - f in all, `twice` is the upper half of their
// product: no rounding in 64 bits, and without a table the zero point and the rounding are one addition of int16.
#pragma once
#include "mac_block.h"

namespace axtool {
namespace {

#define AVX512_INLINE inline __attribute__((always_inline))

enum class Avx512Scaling {
  plain,    // every f is 31 and every mantissa under 2^29: 4 * m fits int32
  limited,  // every channel is such or scales by 1/4 .. 2^11: sums are clamped, then shifted (see prepare)
  any,      // 64-bit arithmetic
};

// Where and how the sums of one or two channel blocks are finished. bias already holds all corrections.
struct Avx512Out {
  alignas(64) int32_t bias[32], factor[32], least[32], most[32], shift[32];
  const int32_t *params;  // [blocks][4][16]
  const int8_t *by_value; // see BlockOut
  int channels;           // 1..32 of them are stored
  Avx512Scaling scaling;

  void prepare(const int32_t *of, int count, const int8_t *values) {
    params = of, channels = count, by_value = values;
    bool all_plain = true, all_limited = true;
    for (int b = 0; b < mac_blocks(count); ++b) {
      const __m512i m = _mm512_loadu_si512(of + 64 * b + 16), f = _mm512_loadu_si512(of + 64 * b + 32);
      const __m512i one = _mm512_set1_epi32(1), zero = _mm512_set1_epi32(0);
      const auto under = [&](int bits) { return _mm512_cmplt_epi32_mask(m, _mm512_set1_epi32(1 << bits)); };
      const __mmask16 negative = _mm512_cmplt_epi32_mask(m, zero);
      const __mmask16 f31 = _mm512_cmpeq_epi32_mask(f, _mm512_set1_epi32(31));
      const __mmask16 plain = __mmask16(f31 & under(29) & ~negative), half = __mmask16(f31 & under(30) & ~under(29));
      // A scale of 1/4 or more takes every sum beyond 2^17 out of int16, where all that follows saturates: clamping
      // to it changes nothing. From f = 20 on, shifted it fits int32, and so does twice the result.
      const __mmask16 steep = __mmask16(~under(30) & _mm512_cmplt_epi32_mask(_mm512_set1_epi32(19), f) &
                                        _mm512_cmplt_epi32_mask(f, _mm512_set1_epi32(32)));
      const __mmask16 meant = __mmask16((1 << mac_min(16, count - 16 * b)) - 1);
      all_plain &= (meant & ~plain) == 0, all_limited &= (meant & ~(plain | half | steep)) == 0;
      const __m512i doubled = _mm512_mask_blend_epi32(half, m, _mm512_add_epi32(m, m));
      _mm512_storeu_si512(factor + 16 * b, _mm512_mask_blend_epi32(plain, doubled, _mm512_slli_epi32(m, 2)));
      const __m512i places = _mm512_mask_blend_epi32(half, _mm512_sub_epi32(_mm512_set1_epi32(33), f), one);
      _mm512_storeu_si512(shift + 16 * b, _mm512_mask_blend_epi32(plain, places, zero));
      const auto limit = [&](int32_t wide, int32_t narrow) {
        return _mm512_mask_blend_epi32(plain, _mm512_set1_epi32(narrow), _mm512_set1_epi32(wide));
      };
      _mm512_storeu_si512(least + 16 * b, limit(INT32_MIN, -(1 << 17)));
      _mm512_storeu_si512(most + 16 * b, limit(INT32_MAX, 1 << 17));
    }
    scaling = all_plain ? Avx512Scaling::plain : all_limited ? Avx512Scaling::limited : Avx512Scaling::any;
  }
};

// The numbers of 16 channels, arranged for vpmuldq, which multiplies the even lanes.
struct Avx512Plain {
  __m512i even, odd;
  Avx512Plain(const Avx512Out &out, int b)
      : even(_mm512_loadu_si512(out.factor + 16 * b)), odd(_mm512_srli_epi64(even, 32)) {}

  __m512i twice(__m512i acc) const {
    const __m512i a = _mm512_mul_epi32(acc, even), b = _mm512_mul_epi32(_mm512_srli_epi64(acc, 32), odd);
    return _mm512_mask_shuffle_epi32(b, 0x5555, a, _MM_PERM_DDBB);  // the upper halves of a to the even lanes
  }
};

struct Avx512Limited : Avx512Plain {
  __m512i least, most, shift;
  Avx512Limited(const Avx512Out &out, int b)
      : Avx512Plain(out, b), least(_mm512_loadu_si512(out.least + 16 * b)),
        most(_mm512_loadu_si512(out.most + 16 * b)), shift(_mm512_loadu_si512(out.shift + 16 * b)) {}

  __m512i twice(__m512i acc) const {
    return Avx512Plain::twice(_mm512_sllv_epi32(_mm512_min_epi32(_mm512_max_epi32(acc, least), most), shift));
  }
};

// Any mantissa and any f up to 62. Beyond +-2^16 no result can be told from another.
struct Avx512Any {
  __m512i even, odd, f_even, f_odd, half_even, half_odd;
  Avx512Any(const Avx512Out &out, int b) {
    const __m512i f = _mm512_loadu_si512(out.params + 64 * b + 32), one = _mm512_set1_epi64(1);
    even = _mm512_loadu_si512(out.params + 64 * b + 16), odd = _mm512_srli_epi64(even, 32);
    f_even = _mm512_and_si512(f, _mm512_set1_epi64(0xffffffff)), f_odd = _mm512_srli_epi64(f, 32);
    // f = 0 shifts the half out by 2^64 - 1 places, which leaves 0: there is nothing to round
    half_even = _mm512_sllv_epi64(one, _mm512_sub_epi64(f_even, one));
    half_odd = _mm512_sllv_epi64(one, _mm512_sub_epi64(f_odd, one));
  }

  static __m512i result(__m512i product, __m512i half, __m512i f) {
    const __m512i r = _mm512_srav_epi64(_mm512_add_epi64(product, half), f);
    return _mm512_min_epi64(_mm512_max_epi64(r, _mm512_set1_epi64(-(1 << 16))), _mm512_set1_epi64(1 << 16));
  }
  __m512i twice(__m512i acc) const {
    const __m512i a = result(_mm512_mul_epi32(acc, even), half_even, f_even);
    const __m512i b = result(_mm512_mul_epi32(_mm512_srli_epi64(acc, 32), odd), half_odd, f_odd);
    const __m512i r = _mm512_mask_blend_epi32(0xaaaa, a, _mm512_slli_epi64(b, 32));
    return _mm512_add_epi32(r, r);
  }
};

inline __m512i avx512_halve(__m512i twice) {
  return _mm512_srai_epi32(_mm512_add_epi32(twice, _mm512_set1_epi32(1)), 1);
}

inline __m512i avx512_interpolate(const int16_t *table, __m512i v) {
  v = _mm512_min_epi32(_mm512_max_epi32(v, _mm512_set1_epi32(-32768)), _mm512_set1_epi32(32767));
  const __m512i at = _mm512_srai_epi32(v, 6), fr = _mm512_and_si512(v, _mm512_set1_epi32(63));
  const __m512i pair = _mm512_i32gather_epi32(at, table + 512, 2);
  // (64 - fr) + fr * 2^16
  const __m512i weights = _mm512_add_epi32(_mm512_sub_epi32(_mm512_slli_epi32(fr, 16), fr), _mm512_set1_epi32(64));
  return _mm512_srai_epi32(_mm512_add_epi32(_mm512_madd_epi16(pair, weights), _mm512_set1_epi32(1 << 12)), 13);
}

// Whole stores where they do: masked ones of bytes are slow on some CPUs.
inline void avx512_store(int8_t *y, __m128i q, int channels) {
  if (channels == 16) return _mm_storeu_si128((__m128i *)y, q);
  if (channels == 8) return _mm_storel_epi64((__m128i *)y, q);
  _mm_mask_storeu_epi8(y, __mmask16((1u << channels) - 1), q);
}
inline void avx512_store(int8_t *y, __m256i q, int channels) {
  if (channels == 32) return _mm256_storeu_si256((__m256i *)y, q);
  _mm_storeu_si128((__m128i *)y, _mm256_castsi256_si128(q));
  avx512_store(y + 16, _mm256_extracti128_si256(q, 1), channels - 16);
}

// The numbers of a loop over pixels that do not change.
template <class Scale, int B>
struct Avx512Finish {
  static constexpr int kPixels = 4 / B;  // four vectors of 16 are 64 bytes

  const Scale scales[2];
  const __m512i lo, hi, zp, order;
  Avx512Finish(const MacTask &t, const Avx512Out &out)
      : scales{Scale(out, 0), Scale(out, B - 1)}, lo(_mm512_set1_epi8(int8_t(t.lo))),
        hi(_mm512_set1_epi8(int8_t(t.hi))), zp(_mm512_set1_epi16(int16_t(2 * t.out_zp + 1))),
        order(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15)) {}

  // The first n of kPixels pixels.
  template <bool kAct>
  AVX512_INLINE void store(const MacTask &t, int channels, int n, const __m512i *sums, int8_t *const *y, int c) const {
    __m512i v[4];
    for (int j = 0; j < 4; ++j) {
      v[j] = scales[j % B].twice(sums[mac_min(j / B, n - 1) * B + j % B]);
      if (kAct) v[j] = avx512_interpolate(t.table, avx512_halve(v[j]));
    }
    __m512i a = _mm512_packs_epi32(v[0], v[1]), b = _mm512_packs_epi32(v[2], v[3]);
    if (!kAct) a = _mm512_srai_epi16(_mm512_adds_epi16(a, zp), 1), b = _mm512_srai_epi16(_mm512_adds_epi16(b, zp), 1);
    __m512i q = _mm512_permutexvar_epi32(order, _mm512_packs_epi16(a, b));
    q = _mm512_min_epi8(_mm512_max_epi8(q, lo), hi);
    if (B == 2) {
      avx512_store(y[0] + c, _mm512_castsi512_si256(q), channels);
      if (n > 1) avx512_store(y[1] + c, _mm512_extracti64x4_epi64(q, 1), channels);
    } else {
      avx512_store(y[0] + c, _mm512_castsi512_si128(q), channels);
      if (n > 1) avx512_store(y[1] + c, _mm512_extracti32x4_epi32(q, 1), channels);
      if (n > 2) avx512_store(y[2] + c, _mm512_extracti32x4_epi32(q, 2), channels);
      if (n > 3) avx512_store(y[3] + c, _mm512_extracti32x4_epi32(q, 3), channels);
    }
  }
};

// sums: [n][B]
template <class Scale, int B, bool kAct>
void avx512_finish_as(const MacTask &t, const Avx512Out &out, int n, const __m512i *sums, int8_t *const *y, int c) {
  const Avx512Finish<Scale, B> finish(t, out);
  constexpr int kWhole = Avx512Finish<Scale, B>::kPixels;
  int i = 0;
  if (out.channels == 16 * B)
    for (; i + kWhole <= n; i += kWhole)
      finish.template store<kAct>(t, 16 * B, kWhole, sums + i * B, y + i, c);
  for (; i < n; i += kWhole)
    finish.template store<kAct>(t, out.channels, mac_min(kWhole, n - i), sums + i * B, y + i, c);
}

// Up to 16 bytes by value; v holds 4 channels, then 4 of another vector, and so on.
AVX512_INLINE void avx512_look_up(const int8_t *by_value, const uint16_t *v, int8_t *y, int channels) {
  for (int k = 0; k + 2 <= channels; k += 2) {  // two numbers a load: loads are what this is short of
    uint32_t pair;
    memcpy(&pair, v + k / 4 * 8 + k % 4, 4);
    y[k] = by_value[pair & 0xffff], y[k + 1] = by_value[pair >> 16];
  }
  if (channels % 2) y[channels - 1] = by_value[v[channels / 4 * 8 + channels % 4 - 1]];
}

// act 1 by value: the pack's saturation is the clamp to int16, the rest is one look-up a byte. First all numbers, then
// all look-ups, which so need not wait for the numbers.
template <class Scale, int B>
void avx512_finish_values(const Avx512Out &out, int n, const __m512i *sums, int8_t *const *y, int c) {
  constexpr int kSome = 16;  // pixels
  const Scale scales[2] = {Scale(out, 0), Scale(out, B - 1)};
  const int8_t *const by_value = out.by_value;  // read once: a store of a byte may change anything
  const int channels = out.channels;
  alignas(64) uint16_t v[kSome / 2 * B][32];
  for (int first = 0; first < n; first += kSome) {
    const int count = mac_min(kSome, n - first), vectors = count * B;
    for (int k = 0; k < vectors; k += 2) {
      const __m512i *s = sums + first * B + k;
      const __m512i a = scales[0].twice(s[0]), b = scales[1].twice(s[k + 1 < vectors ? 1 : 0]);
      _mm512_storeu_si512(v[k / 2], _mm512_packs_epi32(avx512_halve(a), avx512_halve(b)));
    }
    for (int i = 0; i < count; ++i) {
      const uint16_t *from = B == 2 ? v[i] : v[i / 2] + i % 2 * 4;
      int8_t *to = y[first + i] + c;
      if (channels < 16) {
        avx512_look_up(by_value, from, to, channels);
        continue;
      }
      avx512_look_up(by_value, from, to, 16);
      if (B == 1) continue;
      if (channels == 32)
        avx512_look_up(by_value, from + 4, to + 16, 16);
      else
        avx512_look_up(by_value, from + 4, to + 16, channels - 16);
    }
  }
}

template <class Scale, int B>
void avx512_finish_scaled(const MacTask &t, const Avx512Out &out, int n, const __m512i *sums, int8_t *const *y, int c) {
  if (out.by_value) return avx512_finish_values<Scale, B>(out, n, sums, y, c);
  return t.act ? avx512_finish_as<Scale, B, true>(t, out, n, sums, y, c)
               : avx512_finish_as<Scale, B, false>(t, out, n, sums, y, c);
}

// sums: [n][B]; they go to y + c.
template <int B>
void avx512_finish(const MacTask &t, const Avx512Out &out, int n, const __m512i *sums, int8_t *const *y, int c) {
  switch (out.scaling) {
    case Avx512Scaling::plain: return avx512_finish_scaled<Avx512Plain, B>(t, out, n, sums, y, c);
    case Avx512Scaling::limited: return avx512_finish_scaled<Avx512Limited, B>(t, out, n, sums, y, c);
    default: return avx512_finish_scaled<Avx512Any, B>(t, out, n, sums, y, c);
  }
}

// The byte of every int16 that act 1 can meet: between two table entries they lie on a line.
inline void avx512_list_values(const MacTask &t, int8_t *dst) {
  const __m512i lo = _mm512_set1_epi8(int8_t(t.lo)), hi = _mm512_set1_epi8(int8_t(t.hi));
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  __m512i weights[4];  // 64 - fr and fr, of 16 fractions each
  for (int i = 0; i < 4; ++i) {
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i fr = _mm512_add_epi32(lane, _mm512_set1_epi32(16 * i));
    weights[i] = _mm512_add_epi32(_mm512_sub_epi32(_mm512_slli_epi32(fr, 16), fr), _mm512_set1_epi32(64));
  }
  for (int at = 0; at < 1024; ++at) {
    int32_t two;
    memcpy(&two, t.table + at, 4);
    const __m512i pair = _mm512_set1_epi32(two);
    __m512i q[4];
    for (int i = 0; i < 4; ++i)
      q[i] = _mm512_srai_epi32(_mm512_add_epi32(_mm512_madd_epi16(pair, weights[i]), _mm512_set1_epi32(1 << 12)), 13);
    __m512i bytes = _mm512_packs_epi16(_mm512_packs_epi32(q[0], q[1]), _mm512_packs_epi32(q[2], q[3]));
    bytes = _mm512_min_epi8(_mm512_max_epi8(_mm512_permutexvar_epi32(order, bytes), lo), hi);
    _mm512_storeu_si512(dst + uint16_t((at - 512) * 64), bytes);
  }
}
}  // namespace
}  // namespace axtool
