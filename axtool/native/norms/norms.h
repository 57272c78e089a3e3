// The inner loops of ops that look at whole rows of channels: softmax, layer_norm, arg_max. Meaning: ops/reference_rows.py
// and ops/reference_arg_max.py.
// One file an instruction set; all give the same bits.
#pragma once
#include <cstdint>

#include "../mac/mac.h"

namespace axtool {

// Of a row of n numbers; n is at most 2^16, so that the squares' sum fits.
struct Moments {
  int32_t sum, squares, low, high;
};

// What becomes of a row once its moments are known: t = ((x * count - sum) << up) * inverse, rounded from 29 bits, and
// y = clamp((((t * factor + 2^29) >> 30) + offset + half) >> f) + zp).
struct NormRow {
  int32_t count, sum, up, inverse;  // inverse in [0, 2^30]
  int32_t f, zp, lo, hi;
};

struct NormLoops {
  const char *name;
  void (*moments)(int64_t n, const int8_t *x, Moments *found);
  // `pairs` holds the factor and the offset of each channel.
  void (*normalize)(const NormRow &row, int64_t n, const int8_t *x, const int32_t *pairs, int8_t *y);
  // The position of the first of the largest numbers.
  int32_t (*largest)(int64_t n, const int8_t *x);
};

const NormLoops &norm_loops_for(Isa isa);
extern const NormLoops norms_portable, norms_avx2, norms_neon;

// One number of a row, where no vector is full.
inline int8_t normalized(const NormRow &r, int8_t x, const int32_t *pair) {
  const int64_t d = int64_t(x * r.count - r.sum) * (int64_t(1) << r.up);
  const int64_t t = (d * r.inverse + (int64_t(1) << 28)) >> 29;
  const int64_t y = ((t * pair[0] + (int64_t(1) << 29)) >> 30) + pair[1];
  const int64_t q = ((y + ((int64_t(1) << r.f) >> 1)) >> r.f) + r.zp;
  return int8_t(q < r.lo ? r.lo : q > r.hi ? r.hi : q);
}

inline int32_t first_largest(int64_t n, const int8_t *x) {
  int64_t best = 0;
  for (int64_t i = 1; i < n; ++i) best = x[i] > x[best] ? i : best;
  return int32_t(best);
}

inline void add_moments(int64_t n, const int8_t *x, Moments *m) {
  for (int64_t i = 0; i < n; ++i) {
    m->sum += x[i], m->squares += x[i] * x[i];
    m->low = x[i] < m->low ? x[i] : m->low, m->high = x[i] > m->high ? x[i] : m->high;
  }
}

}  // namespace axtool
