// What all drivers of this folder share: the end of a channel block, and scratch memory.
#pragma once
#include <cstring>

#include "mac_plan.h"
#include "mac_scalar.h"

namespace axtool {
namespace {

// Where and how the sums of one channel block are finished. bias already holds all corrections.
struct BlockOut {
  const int8_t *by_value; // act 1: the byte of each int16, by its 16 bits; null where no such table was made
  const int32_t *params;  // [4][16]
  int32_t bias[16];
  int channels;           // 1..16 of them are stored
  int max_f, min_f;
  bool half_mantissa;     // every f is 31 and every mantissa under 2^30: 2 * m fits int32 too,
  int32_t even[16], odd[16];  // and here it is, in the even lanes: of these channels, of their right neighbours
  bool limited;           // or every channel is such or scales by 1/2 .. 2^12: then, clamped to these first, a sum can be
  int32_t least[16], most[16], shift[16];  // shifted left by 32 - f, times m (even, odd) and the result is the upper half
};

// Scales of 1/2 and more take every sum beyond 2^17 out of int16, where all that follows saturates: so clamping it to
// 2^17 changes nothing. `m` is what the shifted sum is multiplied with.
inline bool mac_limit(BlockOut *out, int i, int32_t m, int f, int32_t *factor) {
  const bool small = f == 31 && m >= 0 && m < 1 << 30;
  out->least[i] = small ? INT32_MIN : -(1 << 17), out->most[i] = small ? INT32_MAX : 1 << 17;
  out->shift[i] = small ? 0 : 32 - f, *factor = small ? 2 * m : m;
  return small || (m >= 1 << 30 && f >= 19 && f <= 31);
}

inline void mac_set_out(BlockOut *out, const int32_t *params, int channels, const int8_t *by_value) {
  out->params = params, out->channels = channels, out->by_value = by_value;
  out->min_f = out->max_f = params[32];
  for (int i = 1; i < channels; ++i) {
    out->min_f = mac_min(out->min_f, params[32 + i]);
    out->max_f = mac_max(out->max_f, params[32 + i]);
  }
  out->half_mantissa = out->min_f == 31 && out->max_f == 31;
  for (int i = 0; i < channels; ++i) out->half_mantissa &= params[16 + i] >= 0 && params[16 + i] < 1 << 30;
  int32_t factors[16] = {};
  out->limited = true;
  for (int i = 0; i < channels; ++i)
    out->limited &= mac_limit(out, i, params[16 + i], params[32 + i], factors + i);
  for (int i = channels; i < 16; ++i) out->least[i] = out->most[i] = out->shift[i] = 0;
  for (int i = 0; i < 16; i += 2) {
    out->even[i] = factors[i], out->odd[i] = factors[i + 1];
    out->even[i + 1] = out->odd[i + 1] = 0;
  }
}

// Is a table of 65536 answers (10,000 cycles) less work than interpolating each output (one cycle and more)?
inline bool mac_wants_values(const MacTask &t) {
  return !t.values && t.act == 1 && int64_t(t.oh) * t.ow * t.on >= 32768;
}

// Columns [left, right) of row r of a band lie inside the view; x is the first of them. The others read as x_zp. What
// lies outside the view but inside the tensor is between the taps of a dilated kernel: nothing uses it.
struct MacSpan {
  int left, right;
  const int8_t *x;
};

inline MacSpan mac_inside(const MacTask &t, const MacBand &band, int r) {
  const int iy = band.iy + r * band.iy_step, step = band.ix_step;
  const int x0 = t.view_x - band.ix, x1 = x0 + t.view_w;
  int left = x0 > 0 ? (x0 + step - 1) / step : 0, right = x1 > 0 ? (x1 - 1) / step + 1 : 0;
  left = mac_min(left, band.in_cols), right = mac_max(left, mac_min(right, band.in_cols));
  if (iy < t.view_y || iy >= t.view_y + t.view_h || left == right) return {band.in_cols, band.in_cols, t.x};
  return {left, right, t.x + (iy - t.view_y) * t.x_row + (band.ix + int64_t(left) * step - t.view_x) * t.x_pixel};
}

// Cuts 64-byte aligned pieces off the scratch memory; with no memory it only counts.
struct Carve {
  char *base;
  size_t used = 0;
  void *take(size_t bytes) {
    void *at = base ? base + used : nullptr;
    used += (bytes + 63) & ~size_t(63);
    return at;
  }
};
}  // namespace
}  // namespace axtool
