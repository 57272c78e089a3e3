// The intrinsics that heads_avx512.cpp uses, lane by lane: its bits can be tested on any CPU. Given to the compiler with
// -include; each function follows the "Operation" of Intel's intrinsics guide.
#pragma once
#include <cstdint>
#include <cstring>

#ifndef __AVX512F__
#define __AVX512F__ 1
#endif
#include <emmintrin.h>
#define _IMMINTRIN_H_INCLUDED 1  // instead of the compiler's own

namespace emulated {
struct F {
  float lane[16];
};
struct I {
  uint32_t lane[16];
};
template <class V, class Of>
V each(Of of) {
  V made;
  for (int i = 0; i < 16; ++i) made.lane[i] = of(i);
  return made;
}
inline F operator+(F a, F b) { return each<F>([&](int i) { return a.lane[i] + b.lane[i]; }); }
inline F operator-(F a, F b) { return each<F>([&](int i) { return a.lane[i] - b.lane[i]; }); }
inline F operator*(F a, F b) { return each<F>([&](int i) { return a.lane[i] * b.lane[i]; }); }
inline F operator/(F a, F b) { return each<F>([&](int i) { return a.lane[i] / b.lane[i]; }); }
}  // namespace emulated

#define __m512 emulated::F
#define __m512i emulated::I

inline __m512 _mm512_set1_ps(float x) { return emulated::each<__m512>([&](int) { return x; }); }
inline __m512 _mm512_loadu_ps(const float *p) { return emulated::each<__m512>([&](int i) { return p[i]; }); }
inline void _mm512_storeu_ps(float *p, __m512 a) { std::memcpy(p, a.lane, sizeof a.lane); }
inline __m512 _mm512_cvtepi32_ps(__m512i a) {
  return emulated::each<__m512>([&](int i) { return float(int32_t(a.lane[i])); });
}
inline __m512i _mm512_cvtepi8_epi32(__m128i a) {
  int8_t bytes[16];
  std::memcpy(bytes, &a, 16);
  return emulated::each<__m512i>([&](int i) { return uint32_t(int32_t(bytes[i])); });
}
inline __m512i _mm512_cvtepu8_epi32(__m128i a) {
  uint8_t bytes[16];
  std::memcpy(bytes, &a, 16);
  return emulated::each<__m512i>([&](int i) { return uint32_t(bytes[i]); });
}
inline __m512i _mm512_srli_epi32(__m512i a, int bits) {
  return emulated::each<__m512i>([&](int i) { return a.lane[i] >> bits; });
}
inline __m512 _mm512_permutexvar_ps(__m512i index, __m512 a) {
  return emulated::each<__m512>([&](int i) { return a.lane[index.lane[i] & 15]; });
}
