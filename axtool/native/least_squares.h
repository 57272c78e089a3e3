// Rounding weights for the data, and the matrices that this needs; twins of the functions of the same names in
// axtool/quant/rounding.py and gram.py, bit for bit: each element is the same sequence of products and sums.
#pragma once
#include <cstdint>

namespace axtool {

// (group, rows, k) weights in steps -> whole steps, one weight after the other, each making good what those before lost.
struct Rounding {
  int64_t groups, rows, k;
  const double *real, *nearest;  // (group, rows, k)
  const double *grams;           // (group, k, k), symmetric
  const int64_t *order;          // (group, k): the last is rounded first; a permutation
  const double *damping;         // (group,): added to the diagonal
  double limit;                  // of |steps|
  double *steps;                 // (group, rows, k)
  double *lost;                  // (2, group, rows): the squared error of `steps` and of `nearest`
};
// False, and nothing of use written, where a damped matrix is not positive definite.
bool round_rows_f64(const Rounding &rounding);

// gram[g] += x[g]' x[g], the sum over the rows in float32.
void gram_f32(int64_t groups, int64_t rows, int64_t k, const float *x, double *gram);

// The values that one output of a convolution multiplies with, for some outputs of an image (c, h, w): (group, n, k).
struct Windows {
  int64_t channels, height, width;
  const float *image;
  int64_t groups, kernel[2], dilation[2];
  int64_t count;
  const int64_t *y, *x;  // of the first tap of each window; outside the image is 0
  float *found;
};
void windows_f32(const Windows &windows);

}  // namespace axtool
