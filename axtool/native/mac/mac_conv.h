// Convolution and transposed convolution of a box, for an instruction set I: bands, channel blocks, pixel groups.
//
// I gives:
//   X                           element of the band;  I::offset is what X adds to an activation (0 or 128)
//   kPixels, kBlocks            most pixels and 16-channel blocks of one call of tile
//   expand(src, dst, n)         n activations to X
//   W, weight_elements(quads)   prepared weights of a block, or 0 elements when the stored ones serve
//   prepare(src, dst, quads)
//   tile(t, n, blocks, p, runs, count, w, w_stride, out, y, c)    n pixels: bases p in the band, where they go y + c
//   kValues, list_values(t, dst)                  does act 1 look its bytes up by value (see BlockOut)?
// and if kCopies is more than 1, what the weights of each block decide (see mac_avx2_bytes.h):
//   copy(band, elements, step)                    makes the other copies of the band, step elements apart
//   arrange(w, runs, count, step, steps, dst)     prepares weights and a list of Step in place of the runs
// Everything here is static or a template over I: see mac_scalar.h.
#pragma once
#include <cstring>

#include "mac_block.h"
#include "mac_plan.h"
#include "mac_scalar.h"

namespace axtool {
namespace {

template <class I>
struct ConvDriver {
  using X = typename I::X;
  using W = typename I::W;
  using Step = typename I::Step;
  static constexpr int64_t kBandBytes = I::kBandBytes;

  const MacTask &t;
  const int cin, cout, quads, pixel;  // of one group; pixel = elements of a band pixel
  const int band_rows;
  MacPhase *phases;
  MacRun *runs;
  const X **from;                     // [pixels of the band] where a pixel's input begins in the band
  int8_t **to;                        // [pixels of the band] and its output in y, channel 0 of the box
  X *band;
  int64_t copy_step;                  // elements between copies of the band
  W *weights;
  Step *steps;
  int8_t *own_values = nullptr;       // listed anew in every run
  const int8_t *by_value;             // see BlockOut
  size_t scratch_bytes;

  // rows: of a band, 0 to choose.
  ConvDriver(const MacTask &task, void *scratch, int rows = 0)
      : t(task), cin(t.in_c / t.group), cout(t.out_c / t.group), quads(mac_quads(cin)), pixel(quads * 4),
        band_rows(rows ? rows : mac_band_rows(t, pixel * int64_t(sizeof(X)), kBandBytes)) {
    Carve carve{static_cast<char *>(scratch)};
    phases = static_cast<MacPhase *>(carve.take(sizeof(MacPhase) * mac_max_phases(t)));
    runs = static_cast<MacRun *>(carve.take(sizeof(MacRun) * mac_max_runs(t)));
    from = static_cast<const X **>(carve.take(sizeof(X *) * band_rows * t.ow));
    to = static_cast<int8_t **>(carve.take(sizeof(int8_t *) * band_rows * t.ow));
    weights = static_cast<W *>(carve.take(sizeof(W) * I::weight_elements(t.kh * t.kw * quads) * I::kBlocks));
    steps = I::kCopies > 1 ? static_cast<Step *>(carve.take(sizeof(Step) * 2 * (t.kh * t.kw * quads + 1))) : nullptr;
    copy_step = int64_t(band_elements() + 63) / 64 * 64;
    band = static_cast<X *>(carve.take(sizeof(X) * (copy_step * I::kCopies + 64)));
    if (I::kValues && mac_wants_values(t)) own_values = static_cast<int8_t *>(carve.take(kMacValues));
    by_value = I::kValues && t.values ? t.values : own_values;
    scratch_bytes = carve.used;
  }

  // The largest band: one that starts in the middle of a stride may need a row more than the first.
  size_t band_elements() const {
    const int taps_y = (t.kh - 1) * t.dh + 1, taps_x = (t.kw - 1) * t.dw + 1;
    const size_t rows = t.kind == MacKind::conv_transpose ? (band_rows + taps_y) / t.sh + 2
                                                          : (t.kh == 1 ? band_rows : (band_rows - 1) * t.sh + taps_y);
    const size_t cols = t.kind == MacKind::conv_transpose ? (t.ow + taps_x) / t.sw + 2
                                                          : (t.kw == 1 ? t.ow : (t.ow - 1) * t.sw + taps_x);
    return rows * cols * pixel;
  }

  void run() {
    if constexpr (I::kValues)
      if (own_values) I::list_values(t, own_values);
    const int end = t.oc + t.on, blocks = mac_blocks(cout);
    const int first_block = t.oc / cout * blocks + t.oc % cout / 16;
    for (int first = 0; first < t.oh; first += band_rows) {
      const MacBand plan =
          mac_plan_band(t, first, mac_min(band_rows, t.oh - first), pixel, quads, true, phases, runs);
      list_pixels(plan);
      for (int group = t.oc / cout; group * cout < end; ++group) {
        fill_band(plan, group * cin);
        const int c0 = mac_max(t.oc, group * cout), c1 = mac_min(end, (group + 1) * cout);
        for (int c = c0; c < c1; c += 16 * I::kBlocks)
          run_blocks(plan, group * blocks + (c - group * cout) / 16 - first_block, c, c1);
      }
    }
  }

  // Copies the band's input, x_zp where it lies outside the tensor, 0 in the channels that fill up a quad.
  void fill_band(const MacBand &plan, int channel) {
    const X zero_point = X(t.x_zp + I::offset);
    const int64_t row = int64_t(plan.in_cols) * pixel;
    for (int r = 0; r < plan.in_rows; ++r) {
      X *dst = band + r * row;
      const MacSpan inside = mac_inside(t, plan, r);
      for (int64_t i = 0; i < int64_t(inside.left) * pixel; ++i) dst[i] = zero_point;
      for (int64_t i = int64_t(inside.right) * pixel; i < row; ++i) dst[i] = zero_point;
      if (inside.left < inside.right)
        fill_row(inside.x + channel, dst + int64_t(inside.left) * pixel, inside.right - inside.left,
                 plan.ix_step * t.x_pixel);
    }
    if constexpr (I::kCopies > 1) I::copy(band, plan.in_rows * row, copy_step);
  }

  void fill_row(const int8_t *src, X *dst, int pixels, int64_t step) {
    if (step == pixel) {  // dense: what lies between the channels of two pixels meets zero weights
      I::expand(src, dst, (pixels - 1) * pixel + cin);
      for (int i = (pixels - 1) * pixel + cin; i < pixels * pixel; ++i) dst[i] = 0;
      return;
    }
    for (int p = 0; p < pixels; ++p, src += step, dst += pixel) {
      I::expand(src, dst, cin);
      for (int i = cin; i < pixel; ++i) dst[i] = 0;
    }
  }

  // Channels [c, c + 16 * kBlocks) up to c1: every phase, every pixel.
  void run_blocks(const MacBand &plan, int block, int c, int c1) {
    const int count = mac_min(mac_blocks(c1 - c), I::kBlocks), all_quads = t.kh * t.kw * quads;
    const int8_t *stored = t.w + int64_t(block) * all_quads * 64;
    const W *w = weights;
    const size_t elements = I::weight_elements(all_quads);
    int64_t stride = int64_t(elements);
    if (elements == 0) {
      w = reinterpret_cast<const W *>(stored), stride = int64_t(all_quads) * 64;
    } else if constexpr (I::kCopies == 1) {
      for (int b = 0; b < count; ++b)
        I::prepare(stored + int64_t(b) * all_quads * 64, weights + b * elements, all_quads);
    }
    BlockOut out[I::kBlocks];
    for (int b = 0; b < count; ++b)
      mac_set_out(&out[b], t.params + int64_t(block + b) * 64, mac_min(16, c1 - c - 16 * b), by_value);
    for (int i = 0, at = 0; i < plan.phases; at += phases[i].rows * phases[i].cols, ++i) {
      for (int b = 0; b < count; ++b) set_bias(&out[b], phases[i], stored + int64_t(b) * all_quads * 64);
      const MacRun *own = runs + phases[i].first_run;
      if constexpr (I::kCopies > 1) {
        const int n = I::arrange(stored, own, phases[i].runs, copy_step, steps, weights);
        run_pixels(phases[i], at, count, steps, n, w, stride, out, c - t.oc);
      } else {
        run_pixels(phases[i], at, count, own, phases[i].runs, w, stride, out, c - t.oc);
      }
    }
  }

  // sum over hits of (x + offset) * w + bias' = sum over all taps of x * w + bias, misses reading x_zp
  void set_bias(BlockOut *out, const MacPhase &phase, const int8_t *w) {
    const int32_t *wsum = out->params + 48;
    int32_t hit[16];
    memcpy(hit, wsum, sizeof hit);
    if (!phase.every_tap && (t.x_zp != 0 || I::offset != 0)) {
      memset(hit, 0, sizeof hit);
      for (int r = phase.first_run; r < phase.first_run + phase.runs; ++r)
        for (int i = 0; i < runs[r].quads * 64; ++i) hit[i / 4 % 16] += w[int64_t(runs[r].w) * 64 + i];
    }
    for (int i = 0; i < 16; ++i) {
      const int32_t missed = mac_wrap_mul(t.x_zp, mac_wrap_add(wsum[i], -hit[i]));
      out->bias[i] = mac_wrap_add(mac_wrap_add(out->params[i], missed), mac_wrap_mul(-I::offset, hit[i]));
    }
  }

  // Where each pixel begins in the band and in y, phase after phase.
  void list_pixels(const MacBand &plan) {
    int n = 0;
    for (int i = 0; i < plan.phases; ++i) {
      const MacPhase &phase = phases[i];
      for (int y = 0; y < phase.rows; ++y)
        for (int x = 0; x < phase.cols; ++x, ++n) {
          from[n] = band + (phase.base + y * phase.base_row + x * phase.base_col);
          to[n] = t.y + (phase.y0 + y * phase.y_step) * t.y_row + (phase.x0 + x * phase.x_step) * t.y_pixel;
        }
    }
  }

  // All pixels of a phase (from number `at` of the list), in groups of nearly equal size.
  void run_pixels(const MacPhase &phase, int at, int blocks, const Step *list, int count, const W *w, int64_t stride,
                  const BlockOut *out, int c) {
    const int end = at + phase.rows * phase.cols, most = I::kPixels;
    const int groups = (end - at + most - 1) / most, least = (end - at) / groups, larger = (end - at) % groups;
    for (int g = 0; g < groups; ++g) {
      const int size = least + (g < larger);
      I::tile(t, size, blocks, from + at, list, count, w, stride, out, to + at, c);
      at += size;
    }
  }
};
}  // namespace
}  // namespace axtool
