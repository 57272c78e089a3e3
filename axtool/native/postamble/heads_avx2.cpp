// The loops of heads.h for AVX2. Empty where the compiler is not asked for it.
#include "postamble/heads.h"

#if defined(__AVX2__)
#include <immintrin.h>

#include <cstring>

namespace axtool::postamble {
namespace avx2 {

inline __m128i eight_bytes(const uint8_t *q) { return _mm_loadl_epi64(reinterpret_cast<const __m128i *>(q)); }

struct Wide {
  static constexpr int64_t kWidth = 8;
  struct Affine {
    explicit Affine(const Strip &s) : scale(_mm256_set1_ps(s.scale)), zero(_mm256_set1_ps(s.zero)) {}
    void store(const uint8_t *q, float *out) const {
      const __m256 real = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight_bytes(q)));
      _mm256_storeu_ps(out, _mm256_mul_ps(_mm256_sub_ps(real, zero), scale));
    }
    __m256 scale, zero;
  };
  // vpermps reads the low three bits of an index: the shifts leave nothing to mask.
  struct Sigmoid {
    explicit Sigmoid(const Strip &s)
        : high(_mm256_loadu_ps(s.factors.data())), middle(_mm256_loadu_ps(s.factors.data() + 8)),
          low(_mm256_loadu_ps(s.factors.data() + 16)), one(_mm256_set1_ps(1)) {}
    void store(const uint8_t *q, float *out) const {
      const __m256i u = _mm256_cvtepu8_epi32(eight_bytes(q));
      const __m256 coarse = _mm256_mul_ps(_mm256_permutevar8x32_ps(high, _mm256_srli_epi32(u, 6)),
                                          _mm256_permutevar8x32_ps(middle, _mm256_srli_epi32(u, 3)));
      const __m256 e = _mm256_mul_ps(coarse, _mm256_permutevar8x32_ps(low, u));
      _mm256_storeu_ps(out, _mm256_div_ps(one, _mm256_add_ps(one, e)));
    }
    __m256 high, middle, low, one;
  };
};
#include "postamble/heads.inc"

}  // namespace avx2

const HeadLoops heads_avx2 = {"avx2", avx2::row};

}  // namespace axtool::postamble
#endif
