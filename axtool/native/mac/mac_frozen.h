// Weights of a layer in the form that a kernel multiplies with, made once and kept. Plain memory: this is shared by files
// that are compiled for different instruction sets (see mac_scalar.h).
#pragma once
#include "mac.h"

namespace axtool {

// The steps of 8 output channels over a chunk of the input: first those of two quads, then those of one, then those of
// one on int16 (see mac_avx2_packed_sums.h).
struct MacFrozenSteps {
  const int8_t *weights;   // 32 bytes a quad, 64 on int16, aligned to 32
  const int32_t *offsets;  // of each quad's activations in the packed pixels, in bytes
  int doubles, singles, wides;
};

struct MacFrozen {
  void *memory;            // holds all of it
  size_t bytes;            // used
  int oc;                  // the output channel that steps begin at
  MacFrozenSteps *steps;   // [8 channels][chunk]
  const int32_t *excess;   // of each channel: what its sums lack of x + 128 for every weight, to be added
  MacForm form = MacForm::packed;
  const int16_t *transformed = nullptr;  // of Winograd's forms instead of steps, [block] (see mac_avx2_winograd.h)
};

// Memory for `steps` steps and `room` bytes more, at *rest; of what is never touched the system makes no pages.
MacFrozen *mac_new_frozen(int oc, int steps, size_t room, int8_t **rest);
}  // namespace axtool
