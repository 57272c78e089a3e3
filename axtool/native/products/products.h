// Products of two activations: rows of one matrix times packed columns of another, sums that are exact (int16) or taken
// in ascending order of k (float). Compiled once for each instruction set, chosen at run time; the same bits on all.
#pragma once
#include <cstdint>

#include "../mac/mac.h"

namespace axtool {

constexpr int64_t kPanel = 16;  // columns of a packed panel

// A block of `rows` x (panels * kPanel) sums; strides count elements.
struct Shorts {
  int64_t rows, panels, pairs;  // pairs of k: an odd one is filled up with zeros
  const int16_t *a;
  int64_t a_row;
  const int16_t *b;  // [panel][pair][kPanel][2]
  int64_t b_panel;
  int32_t *sums;
  int64_t sums_row;
};
struct Floats {
  int64_t rows, panels, depth;
  const float *a;
  int64_t a_row;
  const float *b;  // [panel][depth][kPanel]
  int64_t b_panel;
  float *sums;
  int64_t sums_row;
};

// How float32 scores become fx32: times `scale`, then with `f` fraction bits.
struct FxScores {
  float scale;
  int f;
  bool iterated;  // exponentials step by step, not between the points of a table
};

struct Products {
  // sums = a * b in 32 bits: the caller knows that they hold every sum.
  void (*shorts)(const Shorts &);
  // sums[r][n] = (((a[r][0] * b[0][n]) + a[r][1] * b[1][n]) + ...) in float, from 0. Products of numbers that were fp16 are
  // exact: a fused multiply-add rounds as a multiplication and an addition do.
  void (*floats)(const Floats &);
  // e[j] = table[largest of the scores - scores[j]] for n scores; the sum of them.
  int64_t (*exponentials)(const int8_t *scores, int64_t n, const int16_t *table, int16_t *e);
  // fp16 -> float32, n numbers.
  void (*widen)(int64_t n, const int8_t *halves, float *y);
  // A row of n scores, in place -> their exponentials, which are fp16 numbers; `mask` is added to the fx32 scores, or
  // null; `fixed` has room for them. The sum of the exponentials in units of 2^-24.
  int64_t (*powers)(const FxScores &, float *scores, const int32_t *mask, int64_t n, int32_t *fixed);
};

const Products &products_for(Isa isa);
extern const Products products_portable, products_avx2, products_avx512, products_neon;

// Columns of b (k x n, elements `k_step` and `n_step` apart) less `zero` as panels; what is beyond k or n is zero.
void pack_shorts(const int8_t *b, int64_t k, int64_t n, int64_t k_step, int64_t n_step, int zero, int16_t *packed);
inline int64_t panels_of(int64_t n) { return (n + kPanel - 1) / kPanel; }
inline int64_t pairs_of(int64_t k) { return (k + 1) / 2; }
inline int64_t packed_shorts(int64_t k, int64_t n) { return panels_of(n) * pairs_of(k) * 2 * kPanel; }

}  // namespace axtool
