#include "histogram.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace axtool {

constexpr size_t kLanes = 4;     // equal neighbours count in different places: no waiting for the last store
constexpr size_t kWide = 8;      // extremes are kept in so many places: the compiler turns them into vectors
constexpr size_t kChunk = 1024;  // values whose bins are found at once, by vector instructions
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

static void extremes_of(size_t n, const float *x, float *low, float *high) {
  size_t i = 0;
  for (; i + kWide <= n; i += kWide)
    for (size_t j = 0; j < kWide; ++j) {
      low[j] = x[i + j] < low[j] ? x[i + j] : low[j];
      high[j] = x[i + j] > high[j] ? x[i + j] : high[j];
    }
  for (; i < n; ++i) {
    low[0] = std::min(low[0], x[i]);
    high[0] = std::max(high[0], x[i]);
  }
}

Seen histogram_f32(size_t n, const float *x, int exponent, size_t bins, int64_t *counts) {
  const int first = std::clamp(-exponent, -126, 126);  // the factor in two parts: one alone may be no normal float
  const float factor = std::ldexp(1.0f, first), rest = std::ldexp(1.0f, -exponent - first);
  const size_t stride = bins + 1;
  std::vector<uint32_t> lanes(kLanes * stride);
  std::vector<int64_t> total(stride);
  int32_t at[kChunk];
  float low[kWide], high[kWide];
  std::fill_n(low, kWide, std::numeric_limits<float>::infinity());
  std::fill_n(high, kWide, -std::numeric_limits<float>::infinity());
  for (size_t start = 0; start < n; start += kBlock) {
    const size_t end = std::min(n, start + kBlock);
    if (start) lanes.assign(lanes.size(), 0);
    for (size_t chunk = start; chunk < end; chunk += kChunk) {
      const size_t count = std::min(kChunk, end - chunk);
      bins_of(count, x + chunk, factor, rest, int32_t(bins / 2), int32_t(bins), at);
      extremes_of(count, x + chunk, low, high);
      size_t i = 0;
      for (; i + kLanes <= count; i += kLanes)
        for (size_t lane = 0; lane < kLanes; ++lane) ++lanes[lane * stride + at[i + lane]];
      for (; i < count; ++i) ++lanes[at[i]];
    }
    for (size_t bin = 0; bin < stride; ++bin)
      for (size_t lane = 0; lane < kLanes; ++lane) total[bin] += lanes[lane * stride + bin];
  }
  if (!total[bins])
    for (size_t bin = 0; bin < bins; ++bin) counts[bin] += total[bin];
  return {size_t(total[bins]), *std::min_element(low, low + kWide), *std::max_element(high, high + kWide)};
}

}  // namespace axtool
