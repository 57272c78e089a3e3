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

struct FxMoments {
  int64_t sum;
  int32_t low, high;
};

// As NormRow, for numbers of 32 bits: d = (x * count - sum) << up, to the right where up is below 0 (it is at least -32),
// t = d * inverse rounded from 29 bits, y = ((t * factor + half) >> shift) + offset, saturating; shift is at most 62.
struct FxNormRow {
  int64_t count, sum;
  int32_t up, inverse, shift;
};

struct NormLoops {
  const char *name;
  void (*moments)(int64_t n, const int8_t *x, Moments *found);
  // `pairs` holds the factor and the offset of each channel.
  void (*normalize)(const NormRow &row, int64_t n, const int8_t *x, const int32_t *pairs, int8_t *y);
  // The same three for numbers of 32 bits.
  void (*fx_moments)(int64_t n, const int32_t *x, FxMoments *found);
  int64_t (*fx_squares)(const FxNormRow &row, int64_t n, const int32_t *x);
  void (*fx_normalize)(const FxNormRow &row, int64_t n, const int32_t *x, const int32_t *pairs, int32_t *y);
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

inline int64_t fx_deviation(const FxNormRow &r, int32_t x) {
  const int64_t d = x * r.count - r.sum;
  return r.up >= 0 ? d * (int64_t(1) << r.up) : d >> -r.up;
}

inline int32_t fx_finished(const FxNormRow &r, int64_t t, const int32_t *pair) {
  const int64_t y = ((t * pair[0] + ((int64_t(1) << r.shift) >> 1)) >> r.shift) + pair[1];
  return int32_t(y < INT32_MIN ? INT32_MIN : y > INT32_MAX ? INT32_MAX : y);
}

inline int32_t fx_normalized(const FxNormRow &r, int32_t x, const int32_t *pair) {
  return fx_finished(r, (fx_deviation(r, x) * r.inverse + (int64_t(1) << 28)) >> 29, pair);
}

inline void fx_add_moments(int64_t n, const int32_t *x, FxMoments *m) {
  for (int64_t i = 0; i < n; ++i) {
    m->sum += x[i];
    m->low = x[i] < m->low ? x[i] : m->low, m->high = x[i] > m->high ? x[i] : m->high;
  }
}

inline int64_t fx_add_squares(const FxNormRow &r, int64_t n, const int32_t *x, int64_t total) {
  for (int64_t i = 0; i < n; ++i) {
    const int64_t d = fx_deviation(r, x[i]) >> 7;
    total += d * d;
  }
  return total;
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
