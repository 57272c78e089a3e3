// One number of fx32 or fp16 at a time, with integer instructions only where a CPU's own conversion could differ.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

#include "mixed.h"

namespace axtool {
namespace {

template <class T>
inline T mixed_load(const int8_t *p, int64_t i) {
  T v;
  memcpy(&v, p + i * int64_t(sizeof v), sizeof v);
  return v;
}
template <class T>
inline void mixed_store(int8_t *p, int64_t i, T v) {
  memcpy(p + i * int64_t(sizeof v), &v, sizeof v);
}

inline int64_t mixed_clamp(int64_t v, int64_t lo, int64_t hi) { return v < lo ? lo : v > hi ? hi : v; }
inline int32_t saturated(int64_t v) { return int32_t(mixed_clamp(v, INT32_MIN, INT32_MAX)); }

// v >> by, floored; with `by` below 0 (at least -30) to the left, from 32 bits.
inline int64_t fx_shifted(int64_t v, int by) {
  return by >= 0 ? v >> by : int64_t(saturated(v)) * (int64_t(1) << -by);
}
// The same, rounded half up.
inline int64_t fx_rounded(int64_t v, int by) { return by > 0 ? (v + (int64_t(1) << (by - 1))) >> by : fx_shifted(v, by); }

inline int32_t fx_dequantized(const FxDequantize &d, int64_t q) {
  return saturated(fx_shifted((q - d.zp) * d.scale, d.shift));
}

inline float bits_to_float(uint32_t bits) {
  float v;
  memcpy(&v, &bits, sizeof v);
  return v;
}
inline uint32_t float_to_bits(float v) {
  uint32_t bits;
  memcpy(&bits, &v, sizeof bits);
  return bits;
}

constexpr uint16_t kHalfNan = 0x7e00;

inline float half_to_float(uint16_t half) {
  const uint32_t sign = uint32_t(half & 0x8000) << 16, magnitude = half & 0x7fff;
  if (magnitude >= 0x7c00) return bits_to_float(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
  if (magnitude >= 0x0400) return bits_to_float(sign | ((magnitude << 13) + (112u << 23)));
  const float tiny = float(magnitude) * bits_to_float(103u << 23);  // 2^-24, exactly
  return bits_to_float(sign | float_to_bits(tiny));
}

// Half to even; beyond 65504 infinite; every NaN is the same one.
inline uint16_t float_to_half(float v) {
  const uint32_t bits = float_to_bits(v), magnitude = bits & 0x7fffffff;
  const uint16_t sign = uint16_t(bits >> 16 & 0x8000);
  if (magnitude > 0x7f800000) return kHalfNan;
  if (magnitude >= 0x477ff000) return sign | 0x7c00;  // 65520 and more
  if (magnitude < 0x38800000)                         // below 2^-14: a multiple of 2^-24, as an add rounds it
    return sign | uint16_t(float_to_bits(bits_to_float(magnitude) + 0.5f) - float_to_bits(0.5f));
  return sign | uint16_t((magnitude - (112u << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13);
}

// 2^e for -126 <= e <= 127.
inline float power_of_two(int e) { return bits_to_float(uint32_t(e + 127) << 23); }

// Half to even, saturating; NaN gives 0. `scale` is a power of two.
inline int32_t float_to_fx(float v, float scale) {
  const float steps = v * scale;
  if (steps >= 2147483648.0f) return INT32_MAX;
  if (steps < -2147483648.0f) return INT32_MIN;
  return steps == steps ? int32_t(std::nearbyint(steps)) : 0;
}

// fx32 -> float32, rounded once. `scale` is 2^-f.
inline float fx_to_float(int32_t n, float scale) { return float(n) * scale; }

}  // namespace
}  // namespace axtool
