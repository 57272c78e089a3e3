// The same loops for 64-bit Arm: eight floats at a time in two registers, bytes turned in registers. Empty elsewhere.
#include "postamble/bytes.h"

#if defined(__aarch64__)
#include <algorithm>
#include <cstring>

#include "postamble/lanes_neon.h"

namespace axtool::postamble {
namespace neon {

constexpr bool kTurns = true;

// A[u >> 6] * B[(u >> 3) & 7] * C[u & 7]
struct Factors {
  Lanes::Table a, b, c;
  explicit Factors(const float *f) : a(Lanes::table(f)), b(Lanes::table(f + 8)), c(Lanes::table(f + 16)) {}
  Lanes::Floats operator()(const uint8_t *q) const {
    const Lanes::Index u = Lanes::index(q);
    return Lanes::look(a, Lanes::shifted<6>(u)) * Lanes::look(b, Lanes::shifted<3>(u)) * Lanes::look(c, u);
  }
};

inline Lanes::Floats load(const float *x) { return {vld1q_f32(x), vld1q_f32(x + 4)}; }

inline void row(const ByteFunction &f, int64_t n, const uint8_t *u, const float *at, float *y, const float *ahead) {
  int64_t i = 0;
  const auto eight_at_a_time = [&](auto value) {
    for (; i + 8 <= n; i += 8) {
      if (i % 16 == 0) __builtin_prefetch(ahead + i, 1);
      Lanes::store(y + i, value());
    }
  };
  if (f.kind == ByteKind::logistic) {
    const Factors exp(f.factors);
    const Lanes::Floats one = Lanes::set(1);
    eight_at_a_time([&] { return one / (one + exp(u + i)); });
  } else if (f.kind == ByteKind::linear) {
    const Lanes::Floats scale = Lanes::set(f.scale), zero = Lanes::set(f.zero);
    eight_at_a_time([&] { return (Lanes::real(u + i) - zero) * scale; });
  } else if (at) {
    const Lanes::Floats stride = Lanes::set(f.stride), scale = Lanes::set(f.scale), zero = Lanes::set(f.zero);
    eight_at_a_time([&] { return ((Lanes::real(u + i) - zero) * scale + load(at + i)) * stride; });
  }
  for (; i < n; ++i) y[i] = at ? (f.table[u[i]] + at[i]) * f.stride : f.table[u[i]];
}

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

constexpr float kLanes[8] = {0, 1, 2, 3, 4, 5, 6, 7};

// The lanes in pairs, as the portable loop adds them.
inline float pairs(const Lanes::Floats &x) {
  const float32x4_t twos = vpaddq_f32(x.first, x.second), fours = vpaddq_f32(twos, twos);
  return vpadds_f32(vget_low_f32(fours));
}

// The values of lanes below `left`, zeros beyond.
inline Lanes::Floats first_of(const Lanes::Floats &x, const Lanes::Floats &lanes, float left) {
  const float32x4_t end = vdupq_n_f32(left);
  const auto kept = [&](float32x4_t values, float32x4_t lane) {
    return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(values), vcltq_f32(lane, end)));
  };
  return {kept(x.first, lanes.first), kept(x.second, lanes.second)};
}

struct Bins {
  Factors factors;
  const float *table;  // where the three factors would leave the range of a float, else null
  explicit Bins(const ByteFunction &f) : factors(f.factors), table(f.kind == ByteKind::table ? f.table : nullptr) {}

  Lanes::Floats exponentials(const uint8_t *u, int64_t left, const Lanes::Floats &lanes) const {
    if (table) {
      float lookup[8];
      for (int64_t i = 0; i < 8; ++i) lookup[i] = i < left ? table[u[i]] : 0.0f;
      return load(lookup);
    }
    const Lanes::Floats e = factors(u);
    return left >= 8 ? e : first_of(e, lanes, float(left));
  }

  void expected(const int8_t *x, int64_t bins, float *y, int64_t apart) const {
    const Lanes::Floats lanes = load(kLanes);
    for (int side = 0; side < 4; ++side, x += bins) {
      Lanes::Floats total = Lanes::set(0), weighted = total;
      for (int64_t b = 0; b < bins; b += 8) {
        const Lanes::Floats e = exponentials(reinterpret_cast<const uint8_t *>(x + b), bins - b, lanes);
        total = total + e;
        weighted = weighted + (lanes + Lanes::set(float(b))) * e;
      }
      y[side * apart] = pairs(weighted) / pairs(total);
    }
  }
};

#include "postamble/bytes.inc"
}  // namespace neon

const Loops loops_neon = {"neon", neon::map, neon::bins, neon::boxes};

}  // namespace axtool::postamble
#endif
