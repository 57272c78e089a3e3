#include "histogram.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

namespace axtool {

constexpr size_t kLanes = 4;     // equal neighbours count in different places: no waiting for the last store
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

// A compiler may not reorder a minimum of floats by itself: these are the vectors it would need.
using Vector = float __attribute__((vector_size(16)));
constexpr size_t kWide = 2 * sizeof(Vector) / sizeof(float);

struct Extremes {
  Vector low[2], high[2];
};

static void extremes_of(size_t n, const float *x, Extremes &seen) {
  Extremes e = seen;
  size_t i = 0;
  for (; i + kWide <= n; i += kWide)
    for (size_t j = 0; j < 2; ++j) {
      Vector v;
      std::memcpy(&v, x + i + j * sizeof(Vector) / sizeof(float), sizeof v);
      e.low[j] = v < e.low[j] ? v : e.low[j];
      e.high[j] = v > e.high[j] ? v : e.high[j];
    }
  for (; i < n; ++i) {
    e.low[0][0] = std::min(e.low[0][0], x[i]);
    e.high[0][0] = std::max(e.high[0][0], x[i]);
  }
  seen = e;
}

static std::pair<float, float> range_of(const Extremes &seen) {
  float low = seen.low[0][0], high = seen.high[0][0];
  for (size_t i = 1; i < kWide; ++i) {
    low = std::min(low, seen.low[i / 4][i % 4]);
    high = std::max(high, seen.high[i / 4][i % 4]);
  }
  return {low, high};
}

// All zero between two calls. Only the bins between the extremes are added up and cleared: of a small tensor that is
// most of the work.
struct Buffers {
  std::vector<uint32_t> lanes;
  std::vector<int64_t> total;
};

Seen histogram_f32(size_t n, const float *x, int exponent, size_t bins, int64_t *counts) {
  const int first = std::clamp(-exponent, -126, 126);  // the factor in two parts: one alone may be no normal float
  const float factor = std::ldexp(1.0f, first), rest = std::ldexp(1.0f, -exponent - first);
  const size_t stride = bins + 1;
  const ptrdiff_t middle = ptrdiff_t(bins / 2);
  thread_local Buffers buffers;
  auto &[lanes, total] = buffers;
  if (total.size() != stride) {
    lanes.assign(kLanes * stride, 0);
    total.assign(stride, 0);
  }
  int32_t at[kChunk];
  constexpr float kInf = std::numeric_limits<float>::infinity();
  Extremes seen{{Vector{} + kInf, Vector{} + kInf}, {Vector{} - kInf, Vector{} - kInf}};
  size_t homeless = 0, from = 0, to = 0;
  for (size_t start = 0; start < n; start += kBlock) {
    const size_t end = std::min(n, start + kBlock);
    for (size_t chunk = start; chunk < end; chunk += kChunk) {
      const size_t count = std::min(kChunk, end - chunk);
      bins_of(count, x + chunk, factor, rest, int32_t(middle), int32_t(bins), at);
      extremes_of(count, x + chunk, seen);
      size_t i = 0;
      for (; i + kLanes <= count; i += kLanes)
        for (size_t lane = 0; lane < kLanes; ++lane) ++lanes[lane * stride + at[i + lane]];
      for (; i < count; ++i) ++lanes[at[i]];
    }
    for (size_t lane = 0; lane < kLanes; ++lane) homeless += lanes[lane * stride + bins];
    const auto [low, high] = range_of(seen);
    from = homeless ? 0 : size_t(middle + ptrdiff_t(low * factor * rest));
    to = homeless ? stride : size_t(middle + ptrdiff_t(high * factor * rest)) + 1;
    for (size_t lane = 0; lane < kLanes; ++lane) {
      uint32_t *own = lanes.data() + lane * stride;
      for (size_t bin = from; bin < to; ++bin) total[bin] += own[bin];
      std::fill(own + from, own + to, 0u);
    }
  }
  if (!homeless)
    for (size_t bin = from; bin < to; ++bin) counts[bin] += total[bin];
  std::fill(total.begin() + ptrdiff_t(from), total.begin() + ptrdiff_t(to), 0);
  const auto [low, high] = range_of(seen);
  return {homeless, low, high};
}

}  // namespace axtool
