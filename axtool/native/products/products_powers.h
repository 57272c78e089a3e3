// A row of float32 scores -> its exponentials as fp16 numbers, one at a time (see axtool/ops/reference_fp16_products.py).
#pragma once
#include <algorithm>

#include "../fixed_math.h"
#include "../mixed/mixed_scalar.h"
#include "products.h"

namespace axtool {
namespace {

constexpr int64_t kLog2E = 96817625;  // with kLog2EBits
constexpr int kLog2EBits = 26;
constexpr int64_t kVanished = int64_t(40) << kLogBits;  // 2^-40 has no bit of kPowerBits left

// The exponential of a score that is `below` the largest, with `f` fraction bits, rounded to fp16.
inline float half_power(int64_t below, int f, bool iterated) {
  const int64_t exponent = std::min(below * kLog2E >> (kLog2EBits - kLogBits + f), kVanished);
  const float power = float(int32_t(negative_power(exponent, iterated))) * power_of_two(-kPowerBits);
  return half_to_float(float_to_half(power));
}

inline int64_t row_powers(const FxScores &by, float *scores, const int32_t *mask, int64_t n, int32_t *fixed) {
  const float scale = power_of_two(by.f);
  int64_t most = INT64_MIN, units = 0;
  for (int64_t j = 0; j < n; ++j) {
    fixed[j] = float_to_fx(scores[j] * by.scale, scale);
    most = std::max(most, int64_t(fixed[j]) + (mask ? mask[j] : 0));
  }
  for (int64_t j = 0; j < n; ++j) {
    scores[j] = half_power(most - fixed[j] - (mask ? mask[j] : 0), by.f, by.iterated);
    units += int64_t(scores[j] * 16777216.0f);
  }
  return units;
}

inline void widen_halves(int64_t n, const int8_t *halves, float *y) {
  for (int64_t i = 0; i < n; ++i) y[i] = half_to_float(mixed_load<uint16_t>(halves, i));
}

}  // namespace
}  // namespace axtool
