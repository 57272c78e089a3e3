// The same loops, compiled for AVX2. Without fused multiply-adds: they would be other sums.
#if defined(__AVX2__)
#include "least_squares_loops.h"

namespace axtool {

bool round_rows_avx2(const Rounding &rounding) { return round_rows(rounding); }
void gram_avx2(int64_t groups, int64_t rows, int64_t k, const float *x, double *gram) {
  add_gram(groups, rows, k, x, gram);
}

}  // namespace axtool
#endif
