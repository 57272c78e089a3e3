// The loops in plain C++: what every CPU runs, and what the others are held against.
#include "postamble/bytes.h"

#include <algorithm>
#include <cstring>

namespace axtool::postamble {
namespace portable {
constexpr int64_t kMaxBins = 64;
constexpr int64_t kTile = 16, kWide = 64;  // channels and pixels of a tile: its bytes and floats stay in the first cache

inline void row(const ByteFunction &f, int64_t n, const uint8_t *u, const float *at, float *y) {
  if (at)
    for (int64_t i = 0; i < n; ++i) y[i] = (f.table[u[i]] + at[i]) * f.stride;
  else
    for (int64_t i = 0; i < n; ++i) y[i] = f.table[u[i]];
}

inline void turn(const int8_t *x, int64_t pixel, uint8_t *tile) {
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 16; ++j) tile[j * kWide + i] = uint8_t(x[i * pixel + j]);
}

// Bins are added eight lanes at a time, then the lanes in pairs: the order of the vector unit.
inline float pairs(const float *lane) {
  return ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
}

inline void expected(const int8_t *x, int64_t bins, const ByteFunction &exp, float *y, int64_t n) {
  for (int side = 0; side < 4; ++side, x += bins) {
    float total[8] = {}, weighted[8] = {};
    for (int64_t b = 0; b < bins; ++b) {
      const float e = exp.table[uint8_t(x[b])];
      total[b & 7] += e;
      weighted[b & 7] += float(b) * e;
    }
    y[side * n] = pairs(weighted) / pairs(total);
  }
}

#include "postamble/bytes.inc"
}  // namespace portable

const Loops loops_portable = {"scalar", portable::map, portable::bins, portable::boxes};

}  // namespace axtool::postamble
