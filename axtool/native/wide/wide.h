// Ops on tensors whose numbers are int16 (or int8, where the two meet): the calls into this folder.
//
// An int16 is two bytes of its tensor, little endian; boxes, strides and channels of the rows count bytes, everything
// in here counts numbers. Meaning: axtool/ops/reference_wide.py. Sums are exact, in 64 bits or where they fit in 32.
//
// Compiled once for each instruction set (wide_avx2.cpp, else wide_portable.cpp) and chosen at run time, all from the
// same headers: what is in them is static or in an anonymous namespace, see mac/mac_scalar.h.
#pragma once
#include <cstddef>
#include <cstdint>

#include "../loops.h"
#include "../mac/mac.h"

namespace axtool {

// One output box of wide_conv or wide_depthwise. `mac` counts channels in numbers, its strides are in bytes.
struct WideTask {
  MacTask mac;
  int x_bytes, out_bytes;
};

// One row of numbers of an operand: step 0 repeats its first.
struct WideSource {
  const int8_t *p;
  int bytes, step;
};
struct WideSink {
  int8_t *p;
  int bytes;
};

struct WideRequant {
  int32_t x_zp, m, f, out_zp, lo, hi;
};

struct Wide {
  size_t (*mac_scratch)(const WideTask &);
  void (*mac)(const WideTask &, void *scratch);
  // n numbers each; see Loops for the formulas
  void (*add)(const AddParams &, int64_t n, const WideSource &a, const WideSource &b, const WideSink &y);
  void (*mul)(const MulParams &, int64_t n, const WideSource &a, const WideSource &b, const WideSink &y);
  void (*requantize)(const WideRequant &, int64_t n, const WideSource &x, const WideSink &y);
  // of int8: table[x + 128] of int16; of int16: interpolated between entries of int32
  void (*lut)(const int8_t *table, int32_t lo, int32_t hi, int64_t n, const WideSource &x, const WideSink &y);
  // sums += x; y = clamp(requantize(sums) + out_zp)
  void (*sum)(int64_t n, const WideSource &x, int64_t *sums);
  void (*finish)(const WideRequant &, int64_t n, const int64_t *sums, const WideSink &y);
};

const Wide &wide_for(Isa isa);
extern const Wide wide_portable, wide_avx2;

}  // namespace axtool
