// Ops on fx32 (int32, n / 2^f) and fp16, and the ways between them and integers: the calls into this folder.
//
// Meaning: axtool/ops/reference_mixed.py; the same bits from every instruction set. Numbers may begin at any byte: a load
// that was left out reads its source instead.
//
// Compiled once for each instruction set (mixed_avx2.cpp, mixed_neon.cpp, else mixed_portable.cpp) and chosen at run
// time, all from the same headers: what is in them is in an anonymous namespace.
#pragma once
#include <cstddef>
#include <cstdint>

#include "../mac/mac.h"

namespace axtool {

// Shifts below 0 go to the left.
struct FxAdd {
  int shift_a, shift_b;
  bool sub;
  int32_t lo, hi;
};
struct FxMul {
  int shift;
  int32_t lo, hi;
};
struct FxShift {
  int shift;
  int32_t lo, hi;
};
struct FxQuantize {
  int32_t inverse;
  int shift, rest;
  int32_t out_zp, lo, hi;
};
struct FxDequantize {
  int32_t zp, scale;
  int shift;
};
struct FxTable {
  const int8_t *points;  // int32, 2^12 + 1 of them
  int32_t first;
  int step;
};

// One operand of a row: step 0 repeats its first number.
struct FxSource {
  const int8_t *p;
  int step;
};

// One output box of an fp16_linear. Strides are in bytes; pixel p of the tile is pixel oy * width + ox + p of the output
// where the tile has one row, and so on.
struct LinearTask {
  const int8_t *x;  // channel 0 of the first pixel of the tile
  int64_t x_row, x_pixel;
  int x_bytes;      // 1 int8, 2 fp16, 4 fx32
  int k;            // inputs
  FxDequantize from_int8;
  int f_x;
  const int8_t *w;     // fp16 [block][k][16], the first block of the tile
  const int8_t *bias;  // float32 [block][bias_rows][16]
  int64_t bias_rows;
  int64_t width;       // pixels of a row of the output
  int oy, ox, oh, ow, n;
  bool relu;
  int f;          // fraction bits of an fx32 result
  int out_bytes;  // 2 fp16, 4 fx32
  int8_t *y;
  int64_t y_row, y_pixel;
};

struct Mixed {
  // n numbers each
  void (*add)(const FxAdd &, int64_t n, const FxSource &a, const FxSource &b, int8_t *y);
  void (*mul)(const FxMul &, int64_t n, const FxSource &a, const FxSource &b, int8_t *y);
  void (*requantize)(const FxShift &, int64_t n, const int8_t *x, int8_t *y);
  void (*quantize)(const FxQuantize &, int64_t n, const int8_t *x, int8_t *y, int y_bytes);
  void (*dequantize)(const FxDequantize &, int64_t n, const int8_t *x, int x_bytes, int8_t *y);
  void (*lut)(const FxTable &, int64_t n, const int8_t *x, int8_t *y);
  void (*from_fp16)(int f, int64_t n, const int8_t *x, int8_t *y);
  void (*to_fp16)(int f, int64_t n, const int8_t *x, int8_t *y);
  size_t (*linear_scratch)(const LinearTask &);
  void (*linear)(const LinearTask &, void *scratch);
};

const Mixed &mixed_for(Isa isa);
bool mixed_built_avx2();
extern const Mixed mixed_portable, mixed_avx2, mixed_neon;

}  // namespace axtool
