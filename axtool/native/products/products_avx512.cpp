// AVX-512 VNNI: pairs of int16 by one vpdpwssd, floats by fused multiply-adds; a panel is one register. Exponentials are
// those of AVX2, which every such CPU has.
#include "products_loops.h"
#include "products_powers.h"

#if defined(__AVX512VNNI__) && defined(__AVX512F__) && defined(__F16C__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12's own header: _mm512_undefined_epi32
#include "products_avx2_powers.h"

namespace axtool {
namespace {

struct Avx512Shorts {
  static constexpr int kRows = 12, kVectors = 1;
  using Sum = __m512i;
  using Right = __m512i;
  static Sum zero() { return _mm512_setzero_si512(); }
  static Right load(const int16_t *b, int) { return _mm512_loadu_si512(b); }
  static __m512i spread(const int16_t *a) { return _mm512_set1_epi32(pair_at(a)); }
  static Sum add(Sum sum, __m512i a, Right b) { return _mm512_dpwssd_epi32(sum, a, b); }
  static void store(int32_t *y, int, Sum sum) { _mm512_storeu_si512(y, sum); }
};

struct Avx512Floats {
  static constexpr int kRows = 12, kVectors = 1;
  using Sum = __m512;
  using Right = __m512;
  static Sum zero() { return _mm512_setzero_ps(); }
  static Right load(const float *b, int) { return _mm512_loadu_ps(b); }
  static __m512 spread(const float *a) { return _mm512_set1_ps(*a); }
  static Sum add(Sum sum, __m512 a, Right b) { return _mm512_fmadd_ps(a, b, sum); }
  static void store(float *y, int, Sum sum) { _mm512_storeu_ps(y, sum); }
};

}  // namespace
const Products products_avx512 = {all_shorts<Avx512Shorts>, all_floats<Avx512Floats>, row_exponentials<Avx512Shorts>,
                                widen_avx2, row_powers_avx2};
}  // namespace axtool
#else
namespace axtool {
const Products products_avx512 = products_portable;
}
#endif
