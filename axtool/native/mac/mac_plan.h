// A band of a box: which input it needs, and for each phase which pixels and which taps meet.
//
// The input of a band is copied once into scratch (padding written out, wider elements where the instructions want
// them) as [row][column][channel]. After that a convolution is: for each output pixel a base address, and one list of
// runs that all pixels share. A transposed convolution is stride_y * stride_x such lists, one for each residue of
// (output + pad) modulo the stride, each a plain convolution of stride 1 with the taps that hit.
#pragma once
#include "mac.h"

namespace axtool {

// Elements [x, x + 4 * quads) from a pixel's base, against weight quads [w, w + quads) of a channel block.
// Neighbouring taps that are contiguous on both sides are one run.
struct MacRun {
  int x, w, quads;
};

// One list of runs and the output pixels it is for, as positions inside the box.
struct MacPhase {
  int y0, rows, y_step, x0, cols, x_step;
  int base, base_row, base_col;  // elements: first pixel, next row of the phase, next column of the phase
  int first_run, runs;
  bool every_tap;                // false when some taps fall between input pixels
};

struct MacBand {
  int first, rows;               // output rows, counted from the top of the box
  int iy, in_rows, iy_step;      // input rows iy, iy + iy_step, …: may lie outside the tensor
  int ix, in_cols, ix_step;
  int phases;
};

// At most this many phases and runs come out of one band.
inline static int mac_max_phases(const MacTask &t) { return t.kind == MacKind::conv_transpose ? t.sh * t.sw : 1; }
inline static int mac_max_runs(const MacTask &t) { return t.kh * t.kw; }

// `pixel` is the elements of a pixel of the band, `quads` the weight quads of a tap. Without merge each tap is a run.
MacBand mac_plan_band(const MacTask &t, int first, int rows, int pixel, int quads, bool merge, MacPhase *phases,
                      MacRun *runs);

// Output rows of a band so that its input takes about `budget` bytes, all bands nearly equal.
int mac_band_rows(const MacTask &t, int64_t pixel_bytes, int64_t budget);
}  // namespace axtool
