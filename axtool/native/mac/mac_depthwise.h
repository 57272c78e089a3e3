// Depthwise convolution of a box, for an instruction set I: bands of int16, blocks of 16 channels, groups of pixels.
//
// The band of one block stays in the second level cache: one for the first would copy many rows twice and thrice. It
// holds entries: with kTaps == 2 the entry of column x is x and its right neighbour in the kernel, x + dilation,
// interleaved: x86 multiplies and adds pairs.
// Band channel o holds input channel (oc + o) / multiplier, so that every multiplier is the same kernel. I gives:
//   kPixels                            most pixels of one call of tile
//   kTaps                              taps of an entry, 1 or 2 (an entry is 16 * kTaps elements)
//   fill(line, next, dst, n, step)     n entries from the bytes of columns and of their neighbours, step bytes apart
//   prepare(w0, w1, dst)               weights of one entry; w1 is null where the second tap is missing
//   tile(t, n, p, step, taps, count, w, out, y)    p: first pixel, step to the next; taps: offset of each entry
//   kValues, list_values(t, dst)       does act 1 look its bytes up by value (see BlockOut)?
#pragma once
#include "mac_block.h"
#include "mac_plan.h"

namespace axtool {
namespace {

template <class I>
struct DepthwiseDriver {
  static constexpr int64_t kBandBytes = 64 << 10;
  static constexpr int kEntry = 16 * I::kTaps;

  const MacTask &t;
  const int col_step;                  // with an even stride, entries of odd columns are never used
  const int entries_x, taps, band_rows, multiplier;
  MacPhase phase;
  MacRun *runs;
  int32_t *tap_offset;
  int16_t *weights, *band;
  int8_t *line;
  int8_t *own_values = nullptr;       // listed anew in every run
  const int8_t *by_value;             // see BlockOut
  size_t scratch_bytes;

  DepthwiseDriver(const MacTask &task, void *scratch)
      : t(task), col_step(I::kTaps == 2 && t.kw > 1 && t.sw % 2 == 0 ? 2 : 1),
        entries_x((t.kw + I::kTaps - 1) / I::kTaps),
        taps(t.kh * entries_x), band_rows(mac_band_rows(t, kEntry * 2 / col_step, kBandBytes)),
        multiplier(t.out_c / t.in_c) {
    const size_t rows = t.kh == 1 ? band_rows : (band_rows - 1) * t.sh + (t.kh - 1) * t.dh + 1;
    const size_t cols = t.kw == 1 ? t.ow : (t.ow - 1) * t.sw + (t.kw - 1) * t.dw + 1;
    Carve carve{static_cast<char *>(scratch)};
    runs = static_cast<MacRun *>(carve.take(sizeof(MacRun) * mac_max_runs(t)));
    tap_offset = static_cast<int32_t *>(carve.take(sizeof(int32_t) * taps));
    weights = static_cast<int16_t *>(carve.take(sizeof(int16_t) * taps * kEntry));
    line = static_cast<int8_t *>(carve.take((cols + t.dw) * 16));
    band = static_cast<int16_t *>(carve.take(sizeof(int16_t) * rows * entry_cols(int(cols)) * kEntry));
    if (I::kValues && mac_wants_values(t)) own_values = static_cast<int8_t *>(carve.take(kMacValues));
    by_value = I::kValues && t.values ? t.values : own_values;
    scratch_bytes = carve.used;
  }

  int64_t entry_cols(int cols) const { return (cols + col_step - 1) / col_step; }

  void run() {
    if constexpr (I::kValues)
      if (own_values) I::list_values(t, own_values);
    for (int first = 0; first < t.oh; first += band_rows) {
      const MacBand plan =
          mac_plan_band(t, first, mac_min(band_rows, t.oh - first), 1, 0, false, &phase, runs);
      const int64_t row = entry_cols(plan.in_cols) * kEntry;
      for (int i = 0; i < taps; ++i)
        tap_offset[i] = int32_t(i / entries_x * t.dh * row + i % entries_x * I::kTaps * t.dw / col_step * kEntry);
      for (int c = 0; c < t.on; c += 16) {
        for (int r = 0; r < plan.in_rows; ++r) {
          if (multiplier == 1 && c + 16 <= t.on && plan.in_cols >= 24) {
            fill_row(plan, r, c, band + r * row);
          } else {
            fill_line(plan, r, c);
            I::fill(line, line + t.dw * 16, band + r * row, int(entry_cols(plan.in_cols)), col_step * 16);
          }
        }
        run_block(c, row);
      }
    }
  }

  // Entries of one row straight from the input; those that touch a column outside of it one by one.
  void fill_row(const MacBand &plan, int r, int c, int16_t *dst) {
    const MacSpan inside = mac_inside(t, plan, r);
    const int64_t step = plan.ix_step * t.x_pixel;
    const int8_t *src = inside.x + t.oc + c - inside.left * step;  // of column 0, were it there
    const int entries = int(entry_cols(plan.in_cols)), last = inside.right - (I::kTaps == 2 ? t.dw : 0);
    const int first = mac_min(entries, (inside.left + col_step - 1) / col_step);
    const int end = last > 0 ? mac_max(first, mac_min(entries, (last - 1) / col_step + 1)) : first;
    memset(line, t.x_zp, 16);
    for (int e = 0; e < entries; ++e) {
      if (e == first) e = end;  // over the entries with both columns inside
      if (e >= entries) break;
      const int col = e * col_step, next = col + t.dw;
      I::fill(col >= inside.left && col < inside.right ? src + col * step : line,
              next >= inside.left && next < inside.right ? src + next * step : line, dst + e * kEntry, 1, 0);
    }
    I::fill(src + first * col_step * step, src + (first * col_step + t.dw) * step, dst + first * kEntry, end - first,
            int(col_step * step));
  }

  // The bytes of 16 channels of one row, x_zp outside the tensor.
  void fill_line(const MacBand &plan, int r, int c) {
    const MacSpan inside = mac_inside(t, plan, r);
    const int n = mac_min(16, t.on - c), first = (t.oc + c) / multiplier;
    memset(line, t.x_zp, size_t(inside.left) * 16);
    memset(line + inside.right * 16, t.x_zp, size_t(plan.in_cols + t.dw - inside.right) * 16);
    const int64_t step = plan.ix_step * t.x_pixel;
    const int8_t *src = inside.x + first;
    int8_t *dst = line + inside.left * 16;
    const int8_t *const end = line + inside.right * 16;
    if (multiplier == 1 && n == 16)
      for (; dst < end; src += step, dst += 16) memcpy(dst, src, 16);
    else if (multiplier == 1)
      for (; dst < end; src += step, dst += 16) memcpy(dst, src, size_t(n));
    else
      for (; dst < end; src += step, dst += 16)
        for (int o = 0; o < n; ++o) dst[o] = src[(t.oc + c + o) / multiplier - first];
  }

  void run_block(int c, int64_t row) {
    const int8_t *stored = t.w + int64_t(c / 16) * t.kh * t.kw * 16;
    for (int i = 0; i < taps; ++i) {
      const int kx = i % entries_x * I::kTaps;
      const int8_t *w = stored + (i / entries_x * t.kw + kx) * 16;
      I::prepare(w, I::kTaps == 2 && kx + 1 < t.kw ? w + 16 : nullptr, weights + i * kEntry);
    }
    BlockOut out;
    mac_set_out(&out, t.params + c / 16 * 64, mac_min(16, t.on - c), by_value);
    memcpy(out.bias, out.params, sizeof out.bias);
    const int64_t next_row = (t.kh == 1 ? 1 : t.sh) * row, next_col = (t.kw == 1 ? 1 : t.sw) / col_step * kEntry;
    const int groups = (phase.cols + I::kPixels - 1) / I::kPixels;
    for (int y = 0; y < phase.rows; ++y)
      for (int g = 0, x = 0; g < groups; ++g) {
        const int n = (phase.cols - x) / (groups - g);
        int8_t *dst = t.y + (phase.y0 + y) * t.y_row + (phase.x0 + x) * t.y_pixel + c;
        I::tile(t, n, band + y * next_row + x * next_col, next_col, tap_offset, taps, weights, out, dst);
        x += n;
      }
  }
};
}  // namespace
}  // namespace axtool
