// The loops in plain C++: what every CPU runs, and what the others are held against.
#include "postamble/bytes.h"

#include <algorithm>
#include <cstring>

namespace axtool::postamble {
namespace portable {
constexpr bool kTurns = false;  // a table is looked up byte by byte, wherever the bytes are

inline void row(const ByteFunction &f, int64_t n, const uint8_t *u, const float *at, float *y, const float *) {
  if (at)
    for (int64_t i = 0; i < n; ++i) y[i] = (f.table[u[i]] + at[i]) * f.stride;
  else
    for (int64_t i = 0; i < n; ++i) y[i] = f.table[u[i]];
}

inline void turn(const int8_t *, int64_t, uint8_t *) {}
inline void turn_fours(const int8_t *, uint8_t *) {}

// Bins are added eight lanes at a time, then the lanes in pairs: the order of the vector unit.
inline float pairs(const float *lane) {
  return ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
}

struct Bins {
  const float *table;
  explicit Bins(const ByteFunction &f) : table(f.table) {}
  void expected(const int8_t *x, int64_t bins, float *y, int64_t apart) const {
    for (int side = 0; side < 4; ++side, x += bins) {
      float total[8] = {}, weighted[8] = {};
      for (int64_t b = 0; b < bins; ++b) {
        const float e = table[uint8_t(x[b])];
        total[b & 7] += e;
        weighted[b & 7] += float(b) * e;
      }
      y[side * apart] = pairs(weighted) / pairs(total);
    }
  }
};

#include "postamble/bytes.inc"
}  // namespace portable

const Loops loops_portable = {"scalar", portable::map, portable::bins, portable::boxes};

}  // namespace axtool::postamble
