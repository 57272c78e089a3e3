// The inner loops of the ops that are not MACs, compiled once for each instruction set (loops.inc), chosen at run time.
// A strip is w pixels of n channels; x_pixel, y_pixel are the strides between pixels in bytes.
#pragma once
#include <cstdint>

#include "mac/mac.h"

namespace axtool {

// ((q - zp) * m) >> shift, floored. shift may be negative: then it shifts left.
struct Term {
  int32_t zp;
  int32_t m;
  int shift;
};
struct AddParams {
  Term a, b;
  bool sub;
  int32_t out_zp, lo, hi;
};
struct MulParams {
  int32_t zp_a, zp_b, m, f, out_zp, lo, hi;
};
struct Requant {
  int32_t m, f, zp, lo, hi;
};

struct Loops {
  const char *name;
  // y = clamp(((term(a) +- term(b) + 2^15) >> 16) + zp)
  void (*add)(const AddParams &, int64_t w, int64_t n, const int8_t *a, int64_t a_pixel, const int8_t *b,
              int64_t b_pixel, int8_t *y, int64_t y_pixel);
  // y = clamp(requantize((a - zp_a) * (b - zp_b)) + zp)
  void (*mul)(const MulParams &, int64_t w, int64_t n, const int8_t *a, int64_t a_pixel, const int8_t *b,
              int64_t b_pixel, int8_t *y, int64_t y_pixel);
  // y = table[x + 128]
  void (*lut)(const int8_t *table, int64_t w, int64_t n, const int8_t *x, int64_t x_pixel, int8_t *y, int64_t y_pixel);
  // y = max(rows[0], ..., rows[count - 1]), and of y itself with keep; count in 1..kMaxRows
  void (*max)(bool keep, int count, const int8_t *const *rows, int64_t w, int64_t n, int64_t x_pixel, int8_t *y,
              int64_t y_pixel);
  // sum += x, for w pixels into the same n sums
  void (*sum)(int64_t w, int64_t n, const int8_t *x, int64_t x_pixel, int32_t *sum);
  // y = clamp(requantize(acc) + zp)
  void (*requantize)(const Requant &, int64_t n, const int32_t *acc, int8_t *y);
  // y = (a - zp) * wa + (b - zp) * wb
  void (*blend_s8)(int64_t n, const int8_t *a, int32_t wa, const int8_t *b, int32_t wb, int32_t zp, int32_t *y);
  void (*blend_s32)(int64_t n, const int32_t *a, int32_t wa, const int32_t *b, int32_t wb, int32_t *y);
};
constexpr int kMaxRows = 8;

const Loops &loops_for(Isa isa);
extern const Loops loops_portable, loops_avx2;

}  // namespace axtool
