// Counts of trunc(x * 2^-exponent) for calibration; the twin of `_bin` in axtool/quant/observers.py.
#pragma once
#include <cstddef>
#include <cstdint>

namespace axtool {

// Adds 1 to counts[trunc(x * 2^-exponent) + bins / 2] for each of n values. `bins` is odd. Gives the number of values
// that have no bin: NaN, infinities and magnitudes of (bins / 2 + 1) * 2^exponent and more.
size_t histogram_f32(size_t n, const float *x, int exponent, size_t bins, int64_t *counts);

}  // namespace axtool
