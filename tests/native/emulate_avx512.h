// The intrinsics beyond AVX2 that mac_avx512.cpp and mac_avxvnni.cpp use, in plain C++: their meaning can be tested on
// any x86 with AVX2.
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
inline V xor_si512(V a, V b) { return map32([&](int i) { return a.d[i] ^ b.d[i]; }); }
inline V mullo_epi32(V a, V b) { return map32([&](int i) { return int32_t(u(a.d[i]) * u(b.d[i])); }); }
inline V sllv_epi32(V a, V n) {
  return map32([&](int i) { return u(n.d[i]) > 31 ? 0 : int32_t(u(a.d[i]) << n.d[i]); });
}
inline V sub_epi64(V a, V b) { return map64([&](int i) { return int64_t(uint64_t(q(a, i)) - uint64_t(q(b, i))); }); }
inline V min_epi64(V a, V b) { return map64([&](int i) { return q(a, i) < q(b, i) ? q(a, i) : q(b, i); }); }
inline V max_epi64(V a, V b) { return map64([&](int i) { return q(a, i) > q(b, i) ? q(a, i) : q(b, i); }); }
inline V slli_epi64(V a, unsigned n) {
  return map64([&](int i) { return n > 63 ? 0 : int64_t(uint64_t(q(a, i)) << n); });
}
inline V sllv_epi64(V a, V n) {
  return map64([&](int i) { return uint64_t(q(n, i)) > 63 ? 0 : int64_t(uint64_t(q(a, i)) << q(n, i)); });
}
inline V srav_epi64(V a, V n) {
  return map64([&](int i) { return q(a, i) >> (uint64_t(q(n, i)) > 63 ? 63 : q(n, i)); });
}
template <class F>
Mask mask32(F f) { int m = 0; for (int i = 0; i < 16; ++i) m |= int(f(i)) << i; return Mask(m); }
inline Mask cmplt_epi32(V a, V b) { return mask32([&](int i) { return a.d[i] < b.d[i]; }); }
inline Mask cmpeq_epi32(V a, V b) { return mask32([&](int i) { return a.d[i] == b.d[i]; }); }
inline V permutexvar_epi32(V at, V a) { return map32([&](int i) { return a.d[at.d[i] & 15]; }); }
inline V shuffle_masked(V other, Mask m, V a, int order) {
  return map32([&](int i) { return m >> i & 1 ? a.d[i / 4 * 4 + (order >> i % 4 * 2 & 3)] : other.d[i]; });
}
inline V setr_epi32(int a, int b, int c, int d, int e, int f, int g, int h, int i, int j, int k, int l, int m, int n,
                    int o, int p) {
  return V{{a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p}};
}
inline V set4_epi32(int d, int c, int b, int a) {
  return map32([&](int i) { return i % 4 == 0 ? a : i % 4 == 1 ? b : i % 4 == 2 ? c : d; });
}

// Bytes and words: on each half by AVX2, whose instructions work within 128 bits as those of AVX-512 do.
template <class F>
V halves(V a, V b, F f) {
  V v;
  for (int i = 0; i < 16; i += 8) {
    const __m256i x = _mm256_loadu_si256((const __m256i *)(a.d + i));
    const __m256i y = _mm256_loadu_si256((const __m256i *)(b.d + i));
    _mm256_storeu_si256((__m256i *)(v.d + i), f(x, y));
  }
  return v;
}
inline V packs_epi32(V a, V b) { return halves(a, b, [](__m256i x, __m256i y) { return _mm256_packs_epi32(x, y); }); }
inline V packs_epi16(V a, V b) { return halves(a, b, [](__m256i x, __m256i y) { return _mm256_packs_epi16(x, y); }); }
inline V adds_epi16(V a, V b) { return halves(a, b, [](__m256i x, __m256i y) { return _mm256_adds_epi16(x, y); }); }
inline V min_epi8(V a, V b) { return halves(a, b, [](__m256i x, __m256i y) { return _mm256_min_epi8(x, y); }); }
inline V max_epi8(V a, V b) { return halves(a, b, [](__m256i x, __m256i y) { return _mm256_max_epi8(x, y); }); }
inline V shuffle_epi8(V a, V b) { return halves(a, b, [](__m256i x, __m256i y) { return _mm256_shuffle_epi8(x, y); }); }
inline V srai_epi16(V a, int n) { return halves(a, a, [n](__m256i x, __m256i) { return _mm256_srai_epi16(x, n); }); }
inline V set1_epi8(int8_t x) { V v; memset(&v, x, 64); return v; }
inline V set1_epi16(int16_t x) { return set1_epi32(int32_t(uint16_t(x) * 0x10001u)); }
inline __m256i dpbusd_half(__m256i acc, __m256i a, __m256i b) {
  V va = {}, x = {}, w = {};
  _mm256_storeu_si256((__m256i *)va.d, acc);
  _mm256_storeu_si256((__m256i *)x.d, a), _mm256_storeu_si256((__m256i *)w.d, b);
  va = dpbusd(va, x, w);
  return _mm256_loadu_si256((const __m256i *)va.d);
}
inline __m256i half(V a, int which) { return _mm256_loadu_si256((const __m256i *)(a.d + 8 * which)); }
inline __m128i quarter(V a, int which) { return _mm_loadu_si128((const __m128i *)(a.d + 4 * which)); }
inline __m256i low_half(V a) { return half(a, 0); }
inline __m128i low_quarter(V a) { return quarter(a, 0); }

typedef uint64_t Mask64;
inline uint8_t byte(const V &v, int i) { return reinterpret_cast<const uint8_t *>(v.d)[i]; }
template <class F>
V map8(F f) { V v; for (int i = 0; i < 64; ++i) reinterpret_cast<uint8_t *>(v.d)[i] = uint8_t(f(i)); return v; }
template <class F>
Mask64 mask8(F f) { Mask64 m = 0; for (int i = 0; i < 64; ++i) m |= Mask64(f(i)) << i; return m; }
inline V add_epi8(V a, V b) { return map8([&](int i) { return byte(a, i) + byte(b, i); }); }
inline V add_masked(V other, Mask64 m, V a, V b) {
  return map8([&](int i) { return m >> i & 1 ? byte(a, i) + byte(b, i) : byte(other, i); });
}
inline V blend_bytes(Mask64 m, V a, V b) { return map8([&](int i) { return m >> i & 1 ? byte(b, i) : byte(a, i); }); }
inline V permutex2var_epi8(V a, V at, V b) {
  return map8([&](int i) { return byte(byte(at, i) & 64 ? b : a, byte(at, i) & 63); });
}
inline Mask64 movepi8_mask(V a) { return mask8([&](int i) { return byte(a, i) >> 7; }); }
inline Mask64 cmplt_epi8(V a, V b) { return mask8([&](int i) { return int8_t(byte(a, i)) < int8_t(byte(b, i)); }); }
inline Mask64 cmplt_epu8(V a, V b) { return mask8([&](int i) { return byte(a, i) < byte(b, i); }); }
inline Mask64 cmpneq_epi8(V a, V b) { return mask8([&](int i) { return byte(a, i) != byte(b, i); }); }

inline void store_masked(void *p, Mask m, __m128i v) {
  int8_t b[16];
  memcpy(b, &v, 16);
  for (int i = 0; i < 16; ++i)
    if (m >> i & 1) static_cast<int8_t *>(p)[i] = b[i];
}
inline __m128i load_masked(Mask m, const void *p) {
  int8_t b[16] = {};
  for (int i = 0; i < 16; ++i)
    if (m >> i & 1) b[i] = static_cast<const int8_t *>(p)[i];
  return _mm_loadu_si128((const __m128i *)b);
}
}  // namespace emulated

#undef _mm512_setr_epi32
#undef _mm512_set4_epi32
#define __m512i emulated::V
#define __mmask16 emulated::Mask
#define __mmask64 emulated::Mask64
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
#define _mm_mask_storeu_epi8 emulated::store_masked
#define _mm512_xor_si512 emulated::xor_si512
#define _mm512_mullo_epi32 emulated::mullo_epi32
#define _mm512_sllv_epi32 emulated::sllv_epi32
#define _mm512_sub_epi64 emulated::sub_epi64
#define _mm512_min_epi64 emulated::min_epi64
#define _mm512_max_epi64 emulated::max_epi64
#define _mm512_slli_epi64 emulated::slli_epi64
#define _mm512_sllv_epi64 emulated::sllv_epi64
#define _mm512_srav_epi64 emulated::srav_epi64
#define _mm512_permutexvar_epi32 emulated::permutexvar_epi32
#define _mm512_setr_epi32 emulated::setr_epi32
#define _mm512_set4_epi32 emulated::set4_epi32
#define _mm512_packs_epi32 emulated::packs_epi32
#define _mm512_packs_epi16 emulated::packs_epi16
#define _mm512_adds_epi16 emulated::adds_epi16
#define _mm512_min_epi8 emulated::min_epi8
#define _mm512_max_epi8 emulated::max_epi8
#define _mm512_shuffle_epi8 emulated::shuffle_epi8
#define _mm512_srai_epi16 emulated::srai_epi16
#define _mm512_set1_epi8 emulated::set1_epi8
#define _mm512_set1_epi16 emulated::set1_epi16
#define _mm512_cmplt_epi32_mask emulated::cmplt_epi32
#define _mm512_cmpeq_epi32_mask emulated::cmpeq_epi32
#define _mm512_mask_shuffle_epi32 emulated::shuffle_masked
#define _mm512_castsi512_si256 emulated::low_half
#define _mm512_castsi512_si128 emulated::low_quarter
#define _mm512_extracti64x4_epi64 emulated::half
#define _mm512_extracti32x4_epi32 emulated::quarter
#define _mm_maskz_loadu_epi8 emulated::load_masked
#define _mm512_add_epi8 emulated::add_epi8
#define _mm512_mask_add_epi8 emulated::add_masked
#define _mm512_mask_blend_epi8 emulated::blend_bytes
#define _mm512_permutex2var_epi8 emulated::permutex2var_epi8
#define _mm512_movepi8_mask emulated::movepi8_mask
#define _mm512_cmplt_epi8_mask emulated::cmplt_epi8
#define _mm512_cmplt_epu8_mask emulated::cmplt_epu8
#define _mm512_cmpneq_epi8_mask emulated::cmpneq_epi8
#define _mm256_dpbusd_avx_epi32 emulated::dpbusd_half
