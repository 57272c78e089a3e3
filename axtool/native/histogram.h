// Counts of trunc(x * 2^-exponent) for calibration; the twin of `bins_of` in axtool/quant/observers.py.
#pragma once
#include <cstddef>
#include <cstdint>

namespace axtool {

struct Seen {
  size_t homeless;  // values without a bin: NaN, infinities and magnitudes of (bins / 2 + 1) * 2^exponent and more
  float low, high;  // of all values, where none is homeless
};

// Adds 1 to counts[trunc(x * 2^-exponent) + bins / 2] for each of n values; `bins` is odd. Where a value is homeless
// the counts stay as they are.
Seen histogram_f32(size_t n, const float *x, int exponent, size_t bins, int64_t *counts);

}  // namespace axtool
