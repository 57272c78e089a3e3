// Weights of a layer in the form that a kernel multiplies with, made once and kept. Plain memory: this is shared by files
// that are compiled for different instruction sets (see mac_scalar.h).
#pragma once
#include "mac.h"

namespace axtool {

// The steps of 8 output channels: first those of two quads, then those of one (see mac_avx2_packed.h).
struct MacFrozenHalf {
  const int8_t *weights;   // 32 bytes a quad, aligned to 64
  const int32_t *offsets;  // of each quad's activations in the packed pixels, in bytes
  int doubles, singles;
};

struct MacFrozen {
  void *memory;         // holds all of it
  size_t bytes;         // used
  int oc;               // the output channel that halves begin at
  MacFrozenHalf *halves;
};

// Memory for `halves` halves and `room` bytes more, at *rest; of what is never touched the system makes no pages.
MacFrozen *mac_new_frozen(int oc, int halves, size_t room, int8_t **rest);
}  // namespace axtool
