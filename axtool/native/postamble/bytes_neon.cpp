// The same loops for 64-bit Arm: eight floats at a time in two registers, bytes turned in registers. Empty elsewhere.
#include "postamble/bytes.h"

#if defined(__aarch64__)
#include <algorithm>
#include <cstring>

#include "postamble/lanes_neon.h"

namespace axtool::postamble {
namespace neon {

#include "postamble/bytes_wide.inc"

inline void turn(const int8_t *x, int64_t pixel, uint8_t *tile) {
  uint8x16_t a[16], b[16];
  for (int i = 0; i < 16; ++i) a[i] = vld1q_u8(reinterpret_cast<const uint8_t *>(x + i * pixel));
  for (int step = 0; step < 4; ++step) {  // perfect shuffles: four of them turn 16 x 16 bytes
    for (int i = 0; i < 8; ++i) {
      b[2 * i] = vzip1q_u8(a[i], a[i + 8]);
      b[2 * i + 1] = vzip2q_u8(a[i], a[i + 8]);
    }
    for (int i = 0; i < 16; ++i) a[i] = b[i];
  }
  for (int i = 0; i < 16; ++i) vst1q_u8(tile + i * kTilePixels, a[i]);
}

inline void turn_fours(const int8_t *x, uint8_t *tile) {
  const uint8x8x4_t channels = vld4_u8(reinterpret_cast<const uint8_t *>(x));
  for (int j = 0; j < 4; ++j) vst1_u8(tile + j * kTilePixels, channels.val[j]);
}

#include "postamble/bytes.inc"
}  // namespace neon

const Loops loops_neon = {"neon", neon::map, neon::bins, neon::boxes};

}  // namespace axtool::postamble
#endif
