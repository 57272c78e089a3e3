// Bands, phases and runs of a box (see mac_plan.h). Compiled for the base instruction set and shared by all variants.
#include "mac_plan.h"

#include "mac_scalar.h"

namespace axtool {
namespace {

int floor_div(int a, int b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

// One axis of the layer, and the outputs [first, first + count) of it that are wanted.
struct Axis {
  bool transposed;
  int kernel, stride, dilation, pad, first, count;

  int phases() const { return transposed ? stride : 1; }
  // A 1-wide kernel with a stride leaves input pixels unread: the band skips them.
  int in_step() const { return !transposed && kernel == 1 ? stride : 1; }
  int out_step() const { return transposed ? stride : 1; }
  int advance() const { return transposed || kernel == 1 ? 1 : stride; }

  int phase_first(int phase) const {  // smallest wanted output of this residue
    if (!transposed) return first;
    const int residue = first + pad - floor_div(first + pad, stride) * stride;
    return first + (phase - residue + stride) % stride;
  }
  int phase_count(int phase) const {
    const int left = first + count - phase_first(phase);
    return left <= 0 ? 0 : (left + out_step() - 1) / out_step();
  }
  int origin(int phase) const {  // input index of tap offset 0 for the phase's first output
    if (!transposed) return first * stride - pad;
    return floor_div(phase_first(phase) + pad, stride);
  }
  // Does tap k hit in this phase, and how far from the origin (in input pixels)?
  bool tap(int phase, int k, int *delta) const {
    if (!transposed) {
      *delta = k * dilation;
      return true;
    }
    *delta = floor_div(phase - k * dilation, stride);
    return *delta * stride == phase - k * dilation;
  }
  // Input range that the wanted outputs touch, as first index and number of kept indices.
  void range(int *begin, int *size) const {
    int lo = 0, hi = -1;
    for (int phase = 0; phase < phases(); ++phase)
      for (int k = 0; k < kernel; ++k) {
        int delta;
        if (phase_count(phase) == 0 || !tap(phase, k, &delta)) continue;
        const int a = origin(phase) + delta, b = a + (phase_count(phase) - 1) * (transposed ? 1 : stride);
        if (hi < lo) lo = a, hi = b;
        lo = mac_min(lo, a), hi = mac_max(hi, b);
      }
    *begin = lo, *size = (hi - lo) / in_step() + (hi >= lo);
  }
};

Axis axis_y(const MacTask &t, int first, int rows) {
  return {t.kind == MacKind::conv_transpose, t.kh, t.sh, t.dh, t.pt, t.oy + first, rows};
}
Axis axis_x(const MacTask &t) { return {t.kind == MacKind::conv_transpose, t.kw, t.sw, t.dw, t.pl, t.ox, t.ow}; }

// Appends the taps of one phase; returns how many hit.
int add_runs(const Axis &y, const Axis &x, int py, int px, int row, int pixel, int quads, bool merge, MacRun *runs,
             int *used) {
  const int first = *used;
  int taps = 0;
  for (int ky = 0; ky < y.kernel; ++ky)
    for (int kx = 0; kx < x.kernel; ++kx) {
      int dy, dx;
      if (!y.tap(py, ky, &dy) || !x.tap(px, kx, &dx)) continue;
      ++taps;
      const MacRun run = {dy * row + dx * pixel, (ky * x.kernel + kx) * quads, quads};
      MacRun *last = *used > first ? runs + *used - 1 : nullptr;
      if (merge && last && run.x == last->x + last->quads * 4 && run.w == last->w + last->quads)
        last->quads += quads;
      else
        runs[(*used)++] = run;
    }
  return taps;
}
}  // namespace

MacBand mac_plan_band(const MacTask &t, int first, int rows, int pixel, int quads, bool merge, MacPhase *phases,
                      MacRun *runs) {
  const Axis y = axis_y(t, first, rows), x = axis_x(t);
  MacBand band = {first, rows, 0, 0, y.in_step(), 0, 0, x.in_step(), 0};
  y.range(&band.iy, &band.in_rows);
  x.range(&band.ix, &band.in_cols);
  const int row = band.in_cols * pixel;
  int used = 0;
  for (int py = 0; py < y.phases(); ++py)
    for (int px = 0; px < x.phases(); ++px) {
      if (y.phase_count(py) == 0 || x.phase_count(px) == 0) continue;
      MacPhase &phase = phases[band.phases++];
      phase = {y.phase_first(py) - t.oy, y.phase_count(py), y.out_step(),
               x.phase_first(px) - t.ox, x.phase_count(px), x.out_step(),
               (y.origin(py) - band.iy) * row + (x.origin(px) - band.ix) * pixel,
               y.advance() * row, x.advance() * pixel, used, 0, true};
      phase.every_tap = add_runs(y, x, py, px, row, pixel, quads, merge, runs, &used) == t.kh * t.kw;
      phase.runs = used - phase.first_run;
    }
  return band;
}

int mac_band_rows(const MacTask &t, int64_t pixel_bytes, int64_t budget) {
  int begin, cols, in_rows;
  axis_x(t).range(&begin, &cols);
  int rows = t.oh;
  const int least = t.kind == MacKind::conv_transpose ? t.sh : 1;
  for (; rows > least; rows = mac_max(rows / 2, least)) {
    axis_y(t, 0, rows).range(&begin, &in_rows);
    if (int64_t(in_rows) * cols * pixel_bytes <= budget) break;
  }
  // Between this and the next power of two: the largest that fits, then evened out.
  while (rows < t.oh) {
    axis_y(t, 0, rows + 1).range(&begin, &in_rows);
    if (int64_t(in_rows) * cols * pixel_bytes > budget) break;
    ++rows;
  }
  const int bands = (t.oh + rows - 1) / rows;
  return (t.oh + bands - 1) / bands;
}
}  // namespace axtool
