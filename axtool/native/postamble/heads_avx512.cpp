// The loops of heads.h for AVX-512. Empty where the compiler is not asked for it.
#include "postamble/heads.h"

#if defined(__AVX512F__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12's own header: _mm512_undefined_epi32
#include <immintrin.h>

#include <algorithm>
#include <cstring>

namespace axtool::postamble {
namespace avx512 {

inline __m128i sixteen_bytes(const uint8_t *q) { return _mm_loadu_si128(reinterpret_cast<const __m128i *>(q)); }

struct Wide {
  static constexpr int64_t kWidth = 16;
  struct Affine {
    explicit Affine(const Strip &s) : scale(_mm512_set1_ps(s.scale)), zero(_mm512_set1_ps(s.zero)) {}
    void store(const uint8_t *q, float *out) const {
      const __m512 real = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(sixteen_bytes(q)));
      _mm512_storeu_ps(out, _mm512_mul_ps(_mm512_sub_ps(real, zero), scale));
    }
    __m512 scale, zero;
  };
  // exp as a product of three tables. vpermps reads the low four bits of an index here: each table stands twice.
  struct Exponential {
    static constexpr bool kSoftmax = false;
    explicit Exponential(const Strip &s)
        : high(twice(s.factors.data())), middle(twice(s.factors.data() + 8)), low(twice(s.factors.data() + 16)) {}
    static __m512 twice(const float *eight) {
      float both[16];
      std::memcpy(both, eight, 32);
      std::memcpy(both + 8, eight, 32);
      return _mm512_loadu_ps(both);
    }
    __m512 of(const uint8_t *q) const {
      const __m512i u = _mm512_cvtepu8_epi32(sixteen_bytes(q));
      const __m512 coarse = _mm512_mul_ps(_mm512_permutexvar_ps(_mm512_srli_epi32(u, 6), high),
                                          _mm512_permutexvar_ps(_mm512_srli_epi32(u, 3), middle));
      return _mm512_mul_ps(coarse, _mm512_permutexvar_ps(u, low));
    }
    void store(const uint8_t *q, float *out) const { _mm512_storeu_ps(out, of(q)); }
    __m512 high, middle, low;
  };
  struct Sigmoid : Exponential {
    using Exponential::Exponential;
    void store(const uint8_t *q, float *out) const {
      const __m512 one = _mm512_set1_ps(1);
      _mm512_storeu_ps(out, _mm512_div_ps(one, _mm512_add_ps(one, of(q))));
    }
  };
  struct Tanh : Exponential {
    using Exponential::Exponential;
    void store(const uint8_t *q, float *out) const {
      const __m512 one = _mm512_set1_ps(1), e = of(q);
      _mm512_storeu_ps(out, _mm512_div_ps(_mm512_sub_ps(one, e), _mm512_add_ps(one, e)));
    }
  };
};
#include "postamble/heads.inc"

}  // namespace avx512

const HeadLoops heads_avx512 = {"avx512", avx512::row};

}  // namespace axtool::postamble
#endif
