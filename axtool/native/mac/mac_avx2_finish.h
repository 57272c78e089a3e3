// AVX2: sums of up to 6 pixels x 16 channels -> bytes (see mac_finish for the meaning).
#pragma once
#include <immintrin.h>

#include <cstring>

#include "mac_block.h"

namespace axtool {
namespace {

inline __m256i avx2_load(const int32_t *p) { return _mm256_loadu_si256((const __m256i *)p); }

// The numbers of 8 channels, arranged for vpmuldq, which multiplies the even lanes.
struct Avx2Scale {
  __m256i even, odd, half_even, half_odd, f_even, f_odd;
  explicit Avx2Scale(const int32_t *params) {
    const __m256i f = avx2_load(params + 32), one = _mm256_set1_epi64x(1);
    even = avx2_load(params + 16), odd = _mm256_srli_epi64(even, 32);
    f_even = _mm256_and_si256(f, _mm256_set1_epi64x(0xffffffff)), f_odd = _mm256_srli_epi64(f, 32);
    // f = 0 shifts the half out by 2^64 - 1 places, which leaves 0: there is nothing to round
    half_even = _mm256_sllv_epi64(one, _mm256_sub_epi64(f_even, one));
    half_odd = _mm256_sllv_epi64(one, _mm256_sub_epi64(f_odd, one));
  }
};

// What avx2_scale makes of 8 sums has channels 0 2 1 3 4 6 5 7: one shuffle joins even and odd so, and the last shuffle of
// the bytes sets them right.

// f == 31 and m < 2^30 in every lane: the result is the upper half of acc * 2m + 2^31.
struct Avx2Doubled {
  __m256i m_even, m_odd;
  Avx2Doubled(const BlockOut &out, int c) : m_even(avx2_load(out.even + c)), m_odd(avx2_load(out.odd + c)) {}
};

// The lower (0x88) or upper (0xdd) halves of both.
template <int kHalves>
inline __m256i avx2_join(__m256i even, __m256i odd) {
  return _mm256_castps_si256(_mm256_shuffle_ps(_mm256_castsi256_ps(even), _mm256_castsi256_ps(odd), kHalves));
}

inline __m256i avx2_scale(__m256i acc, const Avx2Doubled &s, __m256i half = _mm256_set1_epi64x(int64_t(1) << 31)) {
  const __m256i even = _mm256_add_epi64(_mm256_mul_epi32(acc, s.m_even), half);
  const __m256i odd = _mm256_add_epi64(_mm256_mul_epi32(_mm256_srli_epi64(acc, 32), s.m_odd), half);
  return avx2_join<0xdd>(even, odd);
}

// The same with sums that are limited and shifted first (see mac_limit).
struct Avx2Limited : Avx2Doubled {
  __m256i least, most, shift;
  Avx2Limited(const BlockOut &out, int c)
      : Avx2Doubled(out, c), least(avx2_load(out.least + c)), most(avx2_load(out.most + c)),
        shift(avx2_load(out.shift + c)) {}
};

inline __m256i avx2_scale(__m256i acc, const Avx2Limited &s) {
  acc = _mm256_min_epi32(_mm256_max_epi32(acc, s.least), s.most);
  return avx2_scale(_mm256_sllv_epi32(acc, s.shift), static_cast<const Avx2Doubled &>(s));
}

inline __m256i avx2_limit(__m256i v, __m256i lo, __m256i hi) {
  v = _mm256_blendv_epi8(v, hi, _mm256_cmpgt_epi64(v, hi));
  return _mm256_blendv_epi8(v, lo, _mm256_cmpgt_epi64(lo, v));
}

// f <= 31: limited to +-2^16 * 2^f first, which no clamp after it can tell; then a logical shift leaves 32 good bits.
inline __m256i avx2_scale(__m256i acc, const Avx2Scale &s) {
  const __m256i hi = _mm256_set1_epi64x(1 << 16), lo = _mm256_set1_epi64x(-(1 << 16));
  __m256i even = _mm256_add_epi64(_mm256_mul_epi32(acc, s.even), s.half_even);
  __m256i odd = _mm256_add_epi64(_mm256_mul_epi32(_mm256_srli_epi64(acc, 32), s.odd), s.half_odd);
  even = avx2_limit(even, _mm256_sllv_epi64(lo, s.f_even), _mm256_sllv_epi64(hi, s.f_even));
  odd = avx2_limit(odd, _mm256_sllv_epi64(lo, s.f_odd), _mm256_sllv_epi64(hi, s.f_odd));
  even = _mm256_srlv_epi64(even, s.f_even), odd = _mm256_srlv_epi64(odd, s.f_odd);
  return avx2_join<0x88>(even, odd);
}

// The 4 bytes at table + 512 + at in each lane. The index has a register of its own: qemu 7.2, under which the bits are
// compared, mistakes ymm4 there for "no index".
inline __m256i avx2_gather(const int16_t *table, __m256i at) {
  register __m256i index asm("ymm5") = at;
  __m256i all = _mm256_set1_epi32(-1), found = _mm256_setzero_si256();
  asm("vpgatherdd %1, 1024(%2,%3,2), %0"
      : "+&x"(found), "+&x"(all)
      : "r"(table), "x"(index), "m"(*reinterpret_cast<const int16_t(*)[1025]>(table)));
  return found;
}

// v in int16 range -> table entries idx and idx + 1 in one 32-bit load, weighted by 64 - fr and fr in one vpmaddwd.
inline __m256i avx2_interpolate(const int16_t *table, __m256i v) {
  v = _mm256_min_epi32(_mm256_max_epi32(v, _mm256_set1_epi32(-32768)), _mm256_set1_epi32(32767));
  const __m256i at = _mm256_srai_epi32(v, 6), fr = _mm256_and_si256(v, _mm256_set1_epi32(63));
  const __m256i pair = avx2_gather(table, at);
  // (64 - fr) + fr * 2^16 = fr * 65535 + 64
  const __m256i weights = _mm256_add_epi32(_mm256_sub_epi32(_mm256_slli_epi32(fr, 16), fr), _mm256_set1_epi32(64));
  const __m256i sum = _mm256_madd_epi16(pair, weights);
  return _mm256_srai_epi32(_mm256_add_epi32(sum, _mm256_set1_epi32(1 << 12)), 13);
}

inline void avx2_store(int8_t *y, __m128i q, int channels) {
  if (channels == 16) return _mm_storeu_si128((__m128i *)y, q);
  int8_t bytes[16];
  _mm_storeu_si128((__m128i *)bytes, q);
  for (int i = 0; i < channels; ++i) y[i] = bytes[i];
}

// The byte of every int16 that act 1 can meet: between two table entries they lie on a line.
struct Avx2Values {
  static constexpr bool kValues = true;

  static void list_values(const MacTask &t, int8_t *dst) {
    const __m256i lo = _mm256_set1_epi8(int8_t(t.lo)), hi = _mm256_set1_epi8(int8_t(t.hi));
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    for (int at = 0; at < 1024; ++at) {
      const int rise = t.table[at + 1] - t.table[at];
      const __m256i first = _mm256_mullo_epi32(_mm256_set1_epi32(rise), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
      __m256i v = _mm256_add_epi32(_mm256_set1_epi32(t.table[at] * 64 + (1 << 12)), first);
      const __m256i step = _mm256_set1_epi32(rise * 8);
      for (int half = 0; half < 2; ++half) {
        __m256i q[4];
        for (int i = 0; i < 4; ++i) q[i] = _mm256_srai_epi32(v, 13), v = _mm256_add_epi32(v, step);
        __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
        bytes = _mm256_permutevar8x32_epi32(bytes, order);
        bytes = _mm256_min_epi8(_mm256_max_epi8(bytes, lo), hi);
        const int value = (at - 512) * 64 + 32 * half;
        _mm256_store_si256((__m256i *)(dst + uint16_t(value)), bytes);
      }
    }
  }
};

// Byte `at` of v = by_value[value]. In assembly: GCC would store each byte by itself, which takes twice as long.
#define AVX2_LOOK_UP(v, at, value)                          \
  asm("vpinsrb $" #at ", (%1,%2), %0, %0"                   \
      : "+x"(v)                                             \
      : "r"(by_value), "r"(uint64_t(value)), "m"(*reinterpret_cast<const int8_t(*)[65536]>(by_value)))

// Four values in the order of avx2_scale to bytes [at, at + 4) of v.
#define AVX2_LOOK_UP4(v, four, a, b, c, d)   \
  AVX2_LOOK_UP(v, a, uint16_t(four));        \
  AVX2_LOOK_UP(v, c, uint16_t(four >> 16));  \
  AVX2_LOOK_UP(v, b, uint16_t(four >> 32));  \
  AVX2_LOOK_UP(v, d, four >> 48)

// act 1 by value: the pack's saturation is the clamp to int16, the rest is one load a byte. All values of some pixels
// first: they are read back in fours, long after they were written.
template <class Scale>
void avx2_finish_values(const Scale &s0, const Scale &s1, const BlockOut &out, int n, const __m256i (*acc)[2],
                        int8_t *const *y, int c) {
  constexpr int kPixels = 16;
  const int8_t *const by_value = out.by_value;  // read once: a store of a byte may change anything
  const int channels = out.channels;
  for (int first = 0; first < n; first += kPixels) {
    alignas(32) uint64_t values[kPixels][4];    // channels 0-3, 8-11, 4-7, 12-15
    const int some = mac_min(kPixels, n - first);
    for (int i = 0; i < some; ++i) {
      const __m256i *sums = acc[first + i];
      _mm256_store_si256((__m256i *)values[i], _mm256_packs_epi32(avx2_scale(sums[0], s0), avx2_scale(sums[1], s1)));
    }
    for (int i = 0; i < some; ++i) {
      __m128i low = _mm_setzero_si128(), high = low;
      uint64_t a = values[i][0], b = values[i][1];
      asm("" : "+r"(a), "+r"(b));  // in registers, not each value read from memory
      AVX2_LOOK_UP4(low, a, 0, 1, 2, 3);
      AVX2_LOOK_UP4(high, b, 0, 1, 2, 3);
      a = values[i][2], b = values[i][3];
      asm("" : "+r"(a), "+r"(b));  // in registers, not each value read from memory
      AVX2_LOOK_UP4(low, a, 4, 5, 6, 7);
      AVX2_LOOK_UP4(high, b, 4, 5, 6, 7);
      avx2_store(y[first + i] + c, _mm_unpacklo_epi64(low, high), channels);
    }
  }
}
template <bool kAct, class Scale>
inline __m256i avx2_value(const MacTask &t, const Scale &s, __m256i acc) {
  acc = avx2_scale(acc, s);
  return kAct ? avx2_interpolate(t.table, acc) : acc;
}

// Inlined into each tile: as calls, these cost layers of few channels 5 %.
#define AVX2_INLINE inline __attribute__((always_inline))

template <bool kAct, class Scale>
AVX2_INLINE void avx2_finish_as(const MacTask &t, const Scale &s0, const Scale &s1, const BlockOut &out, int n,
                    const __m256i (*acc)[2], int8_t *const *y, int c) {
  const __m256i zp = _mm256_set1_epi16(int16_t(kAct ? 0 : t.out_zp));
  const __m256i lo = _mm256_set1_epi8(int8_t(t.lo)), hi = _mm256_set1_epi8(int8_t(t.hi));
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  const __m256i within = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15));
  for (int i = 0; i < n; i += 2) {  // two pixels at a time: the packs saturate, which is the clamp to int8
    const int k = i + 1 < n ? i + 1 : i;
    const __m256i a = _mm256_packs_epi32(avx2_value<kAct>(t, s0, acc[i][0]), avx2_value<kAct>(t, s1, acc[i][1]));
    const __m256i b = _mm256_packs_epi32(avx2_value<kAct>(t, s0, acc[k][0]), avx2_value<kAct>(t, s1, acc[k][1]));
    __m256i q = _mm256_packs_epi16(_mm256_adds_epi16(a, zp), _mm256_adds_epi16(b, zp));
    q = _mm256_shuffle_epi8(_mm256_permutevar8x32_epi32(q, order), within);
    q = _mm256_min_epi8(_mm256_max_epi8(q, lo), hi);
    avx2_store(y[i] + c, _mm256_castsi256_si128(q), out.channels);
    if (k != i) avx2_store(y[k] + c, _mm256_extracti128_si256(q, 1), out.channels);
  }
}

// The commonest end: scales below 1/2, no table, whole blocks. A function of its own, whose constants all stay in
// registers. The zero point is added where the rounding is: what saturates later saturates all the same. An odd last
// pixel is stored twice.
__attribute__((noinline)) void avx2_finish_plain(const MacTask &t, const BlockOut &out, int n, const __m256i (*acc)[2],
                                                 int8_t *const *y, int c) {
  const Avx2Doubled s0(out, 0), s1(out, 8);
  const __m256i half = _mm256_set1_epi64x((int64_t(1) << 31) + int64_t(t.out_zp) * (int64_t(1) << 32));
  const __m256i lo = _mm256_set1_epi8(int8_t(t.lo)), hi = _mm256_set1_epi8(int8_t(t.hi));
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  const __m256i within = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15));
  for (int i = 0; i < n; i += 2) {
    const int k = i + 1 < n ? i + 1 : i;
    const __m256i a = _mm256_packs_epi32(avx2_scale(acc[i][0], s0, half), avx2_scale(acc[i][1], s1, half));
    const __m256i b = _mm256_packs_epi32(avx2_scale(acc[k][0], s0, half), avx2_scale(acc[k][1], s1, half));
    __m256i q = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(a, b), order);
    q = _mm256_min_epi8(_mm256_max_epi8(_mm256_shuffle_epi8(q, within), lo), hi);
    _mm_storeu_si128((__m128i *)(y[i] + c), _mm256_castsi256_si128(q));
    _mm_storeu_si128((__m128i *)(y[k] + c), _mm256_extracti128_si256(q, 1));
  }
}

// Scales below 1/2 are nearly all there are without a table, up to 2^12 with one; no scale gives an f over 31, which
// takes the plain road.
AVX2_INLINE void avx2_finish(const MacTask &t, const BlockOut &out, int n, const __m256i (*acc)[2],
                             int8_t *const *y, int c) {
  if (out.half_mantissa && t.act == 0 && out.channels == 16) return avx2_finish_plain(t, out, n, acc, y, c);
  if (out.half_mantissa) {
    const Avx2Doubled s0(out, 0), s1(out, 8);
    if (out.by_value) return avx2_finish_values(s0, s1, out, n, acc, y, c);
    return t.act ? avx2_finish_as<true>(t, s0, s1, out, n, acc, y, c)
                 : avx2_finish_as<false>(t, s0, s1, out, n, acc, y, c);
  }
  if (out.limited) {
    const Avx2Limited s0(out, 0), s1(out, 8);
    if (out.by_value) return avx2_finish_values(s0, s1, out, n, acc, y, c);
    return t.act ? avx2_finish_as<true>(t, s0, s1, out, n, acc, y, c)
                 : avx2_finish_as<false>(t, s0, s1, out, n, acc, y, c);
  }
  if (out.min_f >= 0 && out.max_f <= 31) {
    const Avx2Scale s0(out.params), s1(out.params + 8);
    return t.act ? avx2_finish_as<true>(t, s0, s1, out, n, acc, y, c)
                 : avx2_finish_as<false>(t, s0, s1, out, n, acc, y, c);
  }
  for (int i = 0; i < n; ++i) {
    int32_t sums[16];
    memcpy(sums, acc[i], sizeof sums);
    for (int k = 0; k < out.channels; ++k) y[i][c + k] = mac_finish(t, sums[k], out.params[16 + k], out.params[32 + k]);
  }
}
}  // namespace
}  // namespace axtool
