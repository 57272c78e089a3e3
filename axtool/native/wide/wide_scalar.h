// Numbers of one or two bytes, and the arithmetic on one of them.
#pragma once
#include <cstdint>
#include <cstring>

#include "wide.h"

namespace axtool {
namespace {

// Number i of a row. Its address may be odd: a load that was left out reads its source instead.
template <int bytes>
inline int32_t wide_load(const int8_t *p, int64_t i) {
  if (bytes == 1) return p[i];
  int16_t v;
  memcpy(&v, p + 2 * i, 2);
  return v;
}

template <int bytes>
inline void wide_store(int8_t *p, int64_t i, int64_t v) {
  if (bytes == 1) {
    p[i] = int8_t(v);
    return;
  }
  const int16_t narrow = int16_t(v);
  memcpy(p + 2 * i, &narrow, 2);
}

inline int64_t wide_clamp(int64_t v, int64_t lo, int64_t hi) { return v < lo ? lo : v > hi ? hi : v; }

// floor(acc * m / 2^f + 1/2) of any acc, limited to 2^32, which no clamp after it can tell.
inline int64_t wide_requantize(int64_t acc, int32_t m, int f) {
  f &= 63;  // data may hold anything
  const __int128 half = f ? __int128(1) << (f - 1) : 0, q = (__int128(acc) * m + half) >> f;
  constexpr int64_t most = int64_t(1) << 32;
  return q < -most ? -most : q > most ? most : int64_t(q);
}

// The same where acc and m have 32 bits.
inline int64_t wide_scale(int64_t acc, int32_t m, int f) {
  return (acc * m + (f ? int64_t(1) << (f - 1) : 0)) >> f;
}

inline int64_t wide_term(const Term &t, int32_t q) {
  const int64_t product = int64_t(q - t.zp) * t.m;
  return t.shift >= 0 ? product >> t.shift : product * (int64_t(1) << -t.shift);
}

// Entries of 2^7 steps, every 64 of an int16 argument.
template <class Entry>
inline int64_t wide_interpolate(const int8_t *table, int32_t v) {
  Entry left, right;
  const int8_t *at = table + ((v >> 6) + 512) * int64_t(sizeof(Entry));
  memcpy(&left, at, sizeof left), memcpy(&right, at + sizeof left, sizeof right);
  const int64_t fr = v & 63;
  return (left * (64 - fr) + right * fr + (1 << 12)) >> 13;
}

template <int n>
struct Bytes {
  static constexpr int value = n;
};

// Calls f with the bytes of up to three operands as constants.
template <class F>
inline void with_bytes(int a, const F &f) {
  if (a == 1) f(Bytes<1>());
  else f(Bytes<2>());
}
template <class F>
inline void with_bytes(int a, int b, const F &f) {
  with_bytes(a, [&](auto first) { with_bytes(b, [&](auto second) { f(first, second); }); });
}
template <class F>
inline void with_bytes(int a, int b, int c, const F &f) {
  with_bytes(a, b, [&](auto first, auto second) { with_bytes(c, [&](auto third) { f(first, second, third); }); });
}

}  // namespace
}  // namespace axtool
