// The loops of heads.h for AVX-512. Empty where the compiler is not asked for it.
#include "postamble/heads.h"

#if defined(__AVX512F__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12's own header: _mm512_undefined_epi32
#include <immintrin.h>

#include <algorithm>
#include <cstring>

namespace axtool::postamble {
namespace avx512 {

// vpermps reads the low four bits of an index here: each table of eight stands twice.
struct Lanes512 {
  using Floats = __m512;
  using Index = __m512i;
  using Table = __m512;
  static constexpr int64_t kWidth = 16;
  static __m128i sixteen_bytes(const uint8_t *q) { return _mm_loadu_si128(reinterpret_cast<const __m128i *>(q)); }
  static Floats set(float x) { return _mm512_set1_ps(x); }
  static void store(float *out, Floats x) { _mm512_storeu_ps(out, x); }
  static Floats real(const uint8_t *q) { return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(sixteen_bytes(q))); }
  static Index index(const uint8_t *q) { return _mm512_cvtepu8_epi32(sixteen_bytes(q)); }
  template <int kBits>
  static Index shifted(Index u) { return _mm512_srli_epi32(u, kBits); }
  static Table table(const float *eight) {
    float both[16];
    std::memcpy(both, eight, 32);
    std::memcpy(both + 8, eight, 32);
    return _mm512_loadu_ps(both);
  }
  static Floats look(Table in, Index u) { return _mm512_permutexvar_ps(u, in); }
  static Floats look_four(Table in, Index u) { return look(in, u); }
};
using Lanes = Lanes512;
#include "postamble/heads_wide.inc"

using Wide = Functions;
#include "postamble/heads.inc"

}  // namespace avx512

const HeadLoops heads_avx512 = {"avx512", avx512::row};

}  // namespace axtool::postamble
#endif
