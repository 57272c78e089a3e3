// From an accumulator to a stored byte, one value at a time; and where a channel's numbers lie.
//
// Every function is static: files that include this are compiled for different instruction sets, and the linker must
// never pick one of them for all.
#pragma once
#include "mac.h"

namespace axtool {

static inline int mac_min(int a, int b) { return a < b ? a : b; }
static inline int mac_max(int a, int b) { return a > b ? a : b; }
static inline int mac_blocks(int channels) { return (channels + 15) / 16; }
static inline int mac_quads(int channels) { return (channels + 3) / 4; }

static inline int64_t mac_clamp(int64_t v, int64_t lo, int64_t hi) { return v < lo ? lo : v > hi ? hi : v; }

// floor(acc * m / 2^f + 1/2); |acc * m| <= 2^62 and the half is at most 2^61, so int64 holds the sum.
static inline int64_t mac_requantize(int32_t acc, int32_t m, int f) {
  const int64_t half = f ? int64_t(1) << (f - 1) : 0;
  return (int64_t(acc) * m + half) >> f;
}

// act 1 of a value in int16 range
static inline int8_t mac_activate(const MacTask &t, int v) {
  const int at = (v >> 6) + 512, fr = v & 63;
  const int q = (t.table[at] * (64 - fr) + t.table[at + 1] * fr + (1 << 12)) >> 13;
  return int8_t(mac_clamp(q, t.lo, t.hi));
}

static inline int8_t mac_finish(const MacTask &t, int32_t acc, int32_t m, int f) {
  const int64_t r = mac_requantize(acc, m, f);
  if (t.act == 0) return int8_t(mac_clamp(r + t.out_zp, t.lo, t.hi));
  return mac_activate(t, int(mac_clamp(r, -32768, 32767)));
}

// Sum modulo 2^32, as the vector instructions do it.
static inline int32_t mac_wrap_add(int32_t a, int32_t b) { return int32_t(uint32_t(a) + uint32_t(b)); }
static inline int32_t mac_wrap_mul(int32_t a, int32_t b) { return int32_t(uint32_t(a) * uint32_t(b)); }
}  // namespace axtool
