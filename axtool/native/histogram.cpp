#include "histogram.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace axtool {

constexpr size_t kLanes = 4;                // equal neighbours count in different places: no waiting for the last store
constexpr size_t kChunk = 1024;             // values whose bins are found at once, by vector instructions
constexpr size_t kBlock = size_t(1) << 20;  // values until the 32-bit lanes are added up

// The bin of each value, or `homeless`. A power of two only moves the exponent of a float: the product is exact, and
// what underflows belongs to the middle bin anyway.
static void bins_of(size_t n, const float *x, float first, float second, int32_t offset, int32_t homeless, int32_t *to) {
  const float limit = float(offset + 1);
  for (size_t i = 0; i < n; ++i) {
    const float v = x[i] * first * second;
    const bool fits = v > -limit && v < limit;  // false for NaN
    to[i] = fits ? int32_t(fits ? v : 0.0f) + offset : homeless;
  }
}

size_t histogram_f32(size_t n, const float *x, int exponent, size_t bins, int64_t *counts) {
  const int first = std::clamp(-exponent, -126, 126);  // the factor in two parts: one alone may be no normal float
  const float factor = std::ldexp(1.0f, first), rest = std::ldexp(1.0f, -exponent - first);
  const size_t stride = bins + 1;
  size_t homeless = 0;
  std::vector<uint32_t> lanes(kLanes * stride);
  int32_t at[kChunk];
  for (size_t start = 0; start < n; start += kBlock) {
    const size_t end = std::min(n, start + kBlock);
    lanes.assign(lanes.size(), 0);
    for (size_t chunk = start; chunk < end; chunk += kChunk) {
      const size_t count = std::min(kChunk, end - chunk);
      bins_of(count, x + chunk, factor, rest, int32_t(bins / 2), int32_t(bins), at);
      size_t i = 0;
      for (; i + kLanes <= count; i += kLanes)
        for (size_t lane = 0; lane < kLanes; ++lane) ++lanes[lane * stride + at[i + lane]];
      for (; i < count; ++i) ++lanes[at[i]];
    }
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const uint32_t *row = &lanes[lane * stride];
      for (size_t bin = 0; bin < bins; ++bin) counts[bin] += row[bin];
      homeless += row[bins];
    }
  }
  return homeless;
}

}  // namespace axtool
