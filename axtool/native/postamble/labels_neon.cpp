// The loops of labels for 64-bit Arm. Empty elsewhere.
#include "postamble/labels.h"

#if defined(__aarch64__)
#include <arm_neon.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace axtool::postamble {
namespace neon {

// Two registers of pixels at a time: a comparison and the two choices that wait for it leave room for a second chain.
template <class T>
constexpr int64_t kLanes = 32 / sizeof(T);

inline int16x8_t all(int16_t x) { return vdupq_n_s16(x); }
inline int32x4_t all(int32_t x) { return vdupq_n_s32(x); }
inline int16x8_t load(const int16_t *x) { return vld1q_s16(x); }
inline int32x4_t load(const int32_t *x) { return vld1q_s32(x); }
inline void store(int16_t *to, int16x8_t x) { vst1q_s16(to, x); }
inline void store(int32_t *to, int32x4_t x) { vst1q_s32(to, x); }
inline int16x8_t mixed(const int16_t *x, int16_t q, int16_t p) {
  return vmlaq_n_s16(vmulq_n_s16(load(x), q), load(x + 1), p);
}
inline int32x4_t mixed(const int32_t *x, int32_t q, int32_t p) {
  return vmlaq_n_s32(vmulq_n_s32(load(x), q), load(x + 1), p);
}
inline void keep(int16x8_t score, int16x8_t name, int16x8_t &best, int16x8_t &winner) {
  winner = vbslq_s16(vcgtq_s16(score, best), name, winner);
  best = vmaxq_s16(best, score);
}
inline void keep(int32x4_t score, int32x4_t name, int32x4_t &best, int32x4_t &winner) {
  winner = vbslq_s32(vcgtq_s32(score, best), name, winner);
  best = vmaxq_s32(best, score);
}

template <class T>
inline void most(const T *at, int64_t stride, int64_t c, T q, T p, T *winners) {
  constexpr int64_t half = kLanes<T> / 2;
  auto first = mixed(at, q, p), second = mixed(at + half, q, p);
  auto winner = all(T(0)), other = winner;
  for (int64_t k = 1; k < c; ++k) {
    const T *next = at + k * stride;
    const auto name = all(T(k));
    keep(mixed(next, q, p), name, first, winner);
    keep(mixed(next + half, q, p), name, second, other);
  }
  store(winners, winner);
  store(winners + half, other);
}

// The last vector begins early: what it shares with the one before is not the first.
inline int64_t first_most(const int8_t *x, int64_t c) {
  int8x16_t best = vld1q_s8(x + c - 16);
  for (int64_t k = 0; k + 16 <= c; k += 16) best = vmaxq_s8(best, vld1q_s8(x + k));
  const int8x16_t wanted = vdupq_n_s8(vmaxvq_s8(best));
  const auto equal = [&](int64_t k) {  // four bits for each byte
    const uint8x16_t same = vceqq_s8(vld1q_s8(x + k), wanted);
    return vget_lane_u64(vreinterpret_u64_u8(vshrn_n_u16(vreinterpretq_u16_u8(same), 4)), 0);
  };
  for (int64_t k = 0; k + 16 <= c; k += 16)
    if (const uint64_t found = equal(k)) return k + __builtin_ctzll(found) / 4;
  return c - 16 + __builtin_ctzll(equal(c - 16)) / 4;
}

#include "postamble/labels.inc"
}  // namespace neon

const LabelLoops labels_neon = {"neon", neon::label_rows};

}  // namespace axtool::postamble
#endif
