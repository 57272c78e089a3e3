// The AVX-512 intrinsics that mac_avx512.cpp uses, in plain C++: its meaning can be tested on any x86 with AVX2.
// Given to the compiler with -include. Each function follows the "Operation" of Intel's intrinsics guide.
#pragma once
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#define AXTOOL_EMULATE_AVX512 1

namespace emulated {
struct V {
  int32_t d[16];
};
typedef uint16_t Mask;

inline V load(const void *p) { V v; memcpy(&v, p, 64); return v; }
inline void store(void *p, V v) { memcpy(p, &v, 64); }
template <class F>
V map32(F f) { V v; for (int i = 0; i < 16; ++i) v.d[i] = f(i); return v; }
template <class F>
V map64(F f) {
  V v;
  for (int i = 0; i < 8; ++i) { const int64_t q = f(i); memcpy(v.d + 2 * i, &q, 8); }
  return v;
}
inline int64_t q(const V &v, int i) { int64_t r; memcpy(&r, v.d + 2 * i, 8); return r; }
inline uint32_t u(int32_t v) { return uint32_t(v); }
inline V set1_epi32(int32_t x) { return map32([&](int) { return x; }); }
inline V set1_epi64(int64_t x) { return map64([&](int) { return x; }); }
inline V add_epi32(V a, V b) { return map32([&](int i) { return int32_t(u(a.d[i]) + u(b.d[i])); }); }
inline V sub_epi32(V a, V b) { return map32([&](int i) { return int32_t(u(a.d[i]) - u(b.d[i])); }); }
inline V min_epi32(V a, V b) { return map32([&](int i) { return a.d[i] < b.d[i] ? a.d[i] : b.d[i]; }); }
inline V max_epi32(V a, V b) { return map32([&](int i) { return a.d[i] > b.d[i] ? a.d[i] : b.d[i]; }); }
inline V and_si512(V a, V b) { return map32([&](int i) { return a.d[i] & b.d[i]; }); }
inline V srai_epi32(V a, unsigned n) { return map32([&](int i) { return a.d[i] >> (n > 31 ? 31 : n); }); }
inline V slli_epi32(V a, unsigned n) { return map32([&](int i) { return n > 31 ? 0 : int32_t(u(a.d[i]) << n); }); }
inline V add_epi64(V a, V b) { return map64([&](int i) { return int64_t(uint64_t(q(a, i)) + uint64_t(q(b, i))); }); }
inline V srli_epi64(V a, unsigned n) { return map64([&](int i) { return int64_t(uint64_t(q(a, i)) >> n); }); }
inline V mul_epi32(V a, V b) { return map64([&](int i) { return int64_t(a.d[2 * i]) * b.d[2 * i]; }); }
inline V blend(Mask m, V a, V b) { return map32([&](int i) { return m >> i & 1 ? b.d[i] : a.d[i]; }); }
inline V madd_epi16(V a, V b) {
  int16_t x[32], y[32];
  memcpy(x, &a, 64), memcpy(y, &b, 64);
  return map32([&](int i) { return int32_t(u(x[2 * i] * y[2 * i]) + u(x[2 * i + 1] * y[2 * i + 1])); });
}
inline V gather(V at, const void *base, int scale) {
  return map32([&](int i) {
    int32_t r;
    memcpy(&r, static_cast<const char *>(base) + int64_t(at.d[i]) * scale, 4);
    return r;
  });
}
inline V dpbusd(V acc, V a, V b) {
  uint8_t x[64];
  int8_t w[64];
  memcpy(x, &a, 64), memcpy(w, &b, 64);
  return map32([&](int i) {
    uint32_t sum = u(acc.d[i]);
    for (int k = 4 * i; k < 4 * i + 4; ++k) sum += u(x[k] * w[k]);
    return int32_t(sum);
  });
}
inline __m128i narrow(V a) {
  int8_t b[16];
  for (int i = 0; i < 16; ++i) b[i] = int8_t(a.d[i]);
  return _mm_loadu_si128(reinterpret_cast<const __m128i *>(b));
}
inline void store_masked(void *p, Mask m, __m128i v) {
  int8_t b[16];
  memcpy(b, &v, 16);
  for (int i = 0; i < 16; ++i)
    if (m >> i & 1) static_cast<int8_t *>(p)[i] = b[i];
}
}  // namespace emulated

#define __m512i emulated::V
#define __mmask16 emulated::Mask
#define _mm512_loadu_si512 emulated::load
#define _mm512_storeu_si512 emulated::store
#define _mm512_set1_epi32 emulated::set1_epi32
#define _mm512_set1_epi64 emulated::set1_epi64
#define _mm512_add_epi32 emulated::add_epi32
#define _mm512_sub_epi32 emulated::sub_epi32
#define _mm512_min_epi32 emulated::min_epi32
#define _mm512_max_epi32 emulated::max_epi32
#define _mm512_and_si512 emulated::and_si512
#define _mm512_srai_epi32 emulated::srai_epi32
#define _mm512_slli_epi32 emulated::slli_epi32
#define _mm512_add_epi64 emulated::add_epi64
#define _mm512_srli_epi64 emulated::srli_epi64
#define _mm512_mul_epi32 emulated::mul_epi32
#define _mm512_mask_blend_epi32 emulated::blend
#define _mm512_madd_epi16 emulated::madd_epi16
#define _mm512_i32gather_epi32 emulated::gather
#define _mm512_dpbusd_epi32 emulated::dpbusd
#define _mm512_cvtepi32_epi8 emulated::narrow
#define _mm_mask_storeu_epi8 emulated::store_masked
