// Rows of fx32 and fp16 numbers: the obvious loops, one pass each.
#pragma once
#include "mixed_scalar.h"

namespace axtool {
namespace {

void fx_add(const FxAdd &p, int64_t n, const FxSource &a, const FxSource &b, int8_t *y) {
  for (int64_t i = 0; i < n; ++i) {
    const int64_t left = fx_shifted(mixed_load<int32_t>(a.p, i * a.step), p.shift_a);
    const int64_t right = fx_shifted(mixed_load<int32_t>(b.p, i * b.step), p.shift_b);
    mixed_store(y, i, int32_t(mixed_clamp(p.sub ? left - right : left + right, p.lo, p.hi)));
  }
}

void fx_mul(const FxMul &p, int64_t n, const FxSource &a, const FxSource &b, int8_t *y) {
  for (int64_t i = 0; i < n; ++i) {
    const int64_t product = int64_t(mixed_load<int32_t>(a.p, i * a.step)) * mixed_load<int32_t>(b.p, i * b.step);
    mixed_store(y, i, int32_t(mixed_clamp(fx_rounded(product, p.shift), p.lo, p.hi)));
  }
}

void fx_requantize(const FxShift &p, int64_t n, const int8_t *x, int8_t *y) {
  for (int64_t i = 0; i < n; ++i)
    mixed_store(y, i, int32_t(mixed_clamp(fx_shifted(mixed_load<int32_t>(x, i), p.shift), p.lo, p.hi)));
}

template <class Out>
void fx_quantize_to(const FxQuantize &p, int64_t n, const int8_t *x, int8_t *y) {
  for (int64_t i = 0; i < n; ++i) {
    const int64_t q = int64_t(mixed_load<int32_t>(x, i)) * p.inverse >> p.shift;
    mixed_store(y, i, Out(mixed_clamp(fx_rounded(q, p.rest) + p.out_zp, p.lo, p.hi)));
  }
}

void fx_quantize(const FxQuantize &p, int64_t n, const int8_t *x, int8_t *y, int y_bytes) {
  (y_bytes == 1 ? fx_quantize_to<int8_t> : fx_quantize_to<int16_t>)(p, n, x, y);
}

void fx_dequantize(const FxDequantize &p, int64_t n, const int8_t *x, int x_bytes, int8_t *y) {
  if (x_bytes == 2)
    for (int64_t i = 0; i < n; ++i) mixed_store(y, i, fx_dequantized(p, mixed_load<int16_t>(x, i)));
  else
    for (int64_t i = 0; i < n; ++i) mixed_store(y, i, fx_dequantized(p, x[i]));
}

void fx_lut(const FxTable &t, int64_t n, const int8_t *x, int8_t *y) {
  constexpr int64_t kIntervals = 1 << 12;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t at = mixed_clamp(int64_t(mixed_load<int32_t>(x, i)) - t.first, 0, kIntervals << t.step);
    const int64_t index = at >> t.step < kIntervals ? at >> t.step : kIntervals - 1;
    const int64_t left = mixed_load<int32_t>(t.points, index), right = mixed_load<int32_t>(t.points, index + 1);
    mixed_store(y, i, int32_t(left + fx_rounded((right - left) * (at - (index << t.step)), t.step)));
  }
}

void fx_from_fp16(int f, int64_t n, const int8_t *x, int8_t *y) {
  const float scale = power_of_two(f);
  for (int64_t i = 0; i < n; ++i) mixed_store(y, i, float_to_fx(half_to_float(mixed_load<uint16_t>(x, i)), scale));
}

void fx_to_fp16(int f, int64_t n, const int8_t *x, int8_t *y) {
  const float scale = power_of_two(-f);
  for (int64_t i = 0; i < n; ++i) mixed_store(y, i, float_to_half(fx_to_float(mixed_load<int32_t>(x, i), scale)));
}

}  // namespace
}  // namespace axtool
