// Exponentials, logarithms and roots in fixed point: the functions of axtool/ops/exponential.py, bit for bit.
#pragma once
#include <cmath>
#include <cstdint>

#include "fixed_math_tables.h"

namespace axtool {

constexpr int kLogBits = 24, kPowerBits = 30, kSegmentBits = 8, kHalvingSteps = 16;

// 0 for 0, else floor(log2 v) + 1.
inline int bit_length(uint64_t v) {
#if defined(__GNUC__)
  return v ? 64 - __builtin_clzll(v) : 0;
#else
  int n = 0;
  for (; v; v >>= 1) ++n;
  return n;
#endif
}

// log2 of v in [1, 2^63), with kLogBits.
inline int64_t log_of(int64_t v) {
  const int top = bit_length(uint64_t(v)) - 1;
  const int64_t fraction = (v << (62 - top)) - (int64_t(1) << 62);
  const int64_t index = fraction >> (62 - kSegmentBits), rest = fraction >> (38 - kSegmentBits) & ((1 << 24) - 1);
  const int64_t here = kLogTable[index];
  return (int64_t(top) << kLogBits) + here + ((kLogTable[index + 1] - here) * rest >> 24);
}

// 2^exponent of an exponent of kLogBits: a mantissa in [1, 2] with kPowerBits, and the whole exponent.
struct Power {
  int64_t mantissa, exponent;
};
inline Power power_of_two(int64_t exponent) {
  constexpr int rest_bits = kLogBits - kSegmentBits;
  const int64_t fraction = exponent & ((1 << kLogBits) - 1);
  const int64_t index = fraction >> rest_bits, rest = fraction & ((1 << rest_bits) - 1);
  const int64_t here = kPowerTable[index];
  return {here + ((int64_t(kPowerTable[index + 1]) - here) * rest >> rest_bits), exponent >> kLogBits};
}

// 2^-fraction of a fraction of kLogBits in [0, 1), with kPowerBits: a product for each of its first 16 bits.
inline int64_t halved(int64_t fraction) {
  int64_t power = int64_t(1) << kPowerBits;
  for (int step = 1; step <= kHalvingSteps; ++step)
    if (fraction >> (kLogBits - step) & 1) power = power * kHalvings[step - 1] >> kPowerBits;
  return power;
}

// 2^-exponent of an exponent of kLogBits from 0 on, with kPowerBits, floored.
inline int64_t negative_power(int64_t exponent, bool iterated = false) {
  if (iterated) {
    const int64_t shift = exponent >> kLogBits;
    return halved(exponent & ((1 << kLogBits) - 1)) >> (shift < 62 ? shift : 62);
  }
  const Power power = power_of_two(-exponent);
  return power.mantissa >> (-power.exponent < 62 ? -power.exponent : 62);
}

// 2^bits / sqrt(v) for v in [2^44, 2^63) and bits of at most 52.
inline int64_t inverse_root(int64_t v, int bits) {
  const Power power = power_of_two((int64_t(bits) << kLogBits) - (log_of(v) >> 1));
  const int shift = int(kPowerBits - power.exponent);
  return (power.mantissa + ((int64_t(1) << shift) >> 1)) >> shift;
}

// The root of v in [2^32, 2^63): 16 bits of it and zeros.
inline int64_t root(int64_t v) {
  const int half = (bit_length(uint64_t(v)) - 31) / 2;
  return int64_t(std::sqrt(double(v >> 2 * half))) << half;  // of 32 bits: the double is exact, its root correctly rounded
}

}  // namespace axtool
