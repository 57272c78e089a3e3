// The loops for any CPU, and the choice between them.
#include "norms.h"

namespace axtool {
namespace {

void moments(int64_t n, const int8_t *x, Moments *found) {
  Moments m{0, 0, 127, -128};
  add_moments(n, x, &m);
  *found = m;
}

void normalize(const NormRow &row, int64_t n, const int8_t *x, const int32_t *pairs, int8_t *y) {
  for (int64_t i = 0; i < n; ++i) y[i] = normalized(row, x[i], pairs + 2 * i);
}

void fx_moments(int64_t n, const int32_t *x, FxMoments *found) {
  FxMoments m{0, INT32_MAX, INT32_MIN};
  fx_add_moments(n, x, &m);
  *found = m;
}

int64_t fx_squares(const FxNormRow &row, int64_t n, const int32_t *x) { return fx_add_squares(row, n, x, 0); }

void fx_normalize(const FxNormRow &row, int64_t n, const int32_t *x, const int32_t *pairs, int32_t *y) {
  for (int64_t i = 0; i < n; ++i) y[i] = fx_normalized(row, x[i], pairs + 2 * i);
}

}  // namespace

const NormLoops norms_portable = {"portable", moments, normalize, fx_moments, fx_squares, fx_normalize, first_largest};

const NormLoops &norm_loops_for(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::avx2 || isa == Isa::avxvnni || isa == Isa::avx512vnni) return norms_avx2;
#elif defined(__aarch64__)
  if (isa == Isa::neon_dot) return norms_neon;
#endif
  (void)isa;
  return norms_portable;
}

}  // namespace axtool
