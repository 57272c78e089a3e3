// AVX2 and F16C: pairs of int16 by one vpmaddwd, floats by fused multiply-adds.
#include "products_loops.h"
#include "products_powers.h"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include "products_avx2_powers.h"

namespace axtool {
namespace {

struct Avx2Shorts {
  static constexpr int kRows = 4, kVectors = 2;
  using Sum = __m256i;
  using Right = __m256i;
  static Sum zero() { return _mm256_setzero_si256(); }
  static Right load(const int16_t *b, int v) { return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(b) + v); }
  static __m256i spread(const int16_t *a) { return _mm256_set1_epi32(pair_at(a)); }
  static Sum add(Sum sum, __m256i a, Right b) { return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b)); }
  static void store(int32_t *y, int v, Sum sum) { _mm256_storeu_si256(reinterpret_cast<__m256i *>(y) + v, sum); }
};

struct Avx2Floats {
  static constexpr int kRows = 6, kVectors = 2;
  using Sum = __m256;
  using Right = __m256;
  static Sum zero() { return _mm256_setzero_ps(); }
  static Right load(const float *b, int v) { return _mm256_loadu_ps(b + 8 * v); }
  static __m256 spread(const float *a) { return _mm256_broadcast_ss(a); }
  static Sum add(Sum sum, __m256 a, Right b) { return _mm256_fmadd_ps(a, b, sum); }
  static void store(float *y, int v, Sum sum) { _mm256_storeu_ps(y + 8 * v, sum); }
};

}  // namespace
const Products products_avx2 = {all_shorts<Avx2Shorts>, all_floats<Avx2Floats>, row_exponentials<Avx2Shorts>,
                                widen_avx2, row_powers_avx2};
}  // namespace axtool
#else
namespace axtool {
const Products products_avx2 = products_portable;
}
#endif
