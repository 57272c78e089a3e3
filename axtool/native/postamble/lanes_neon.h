// The registers of 64-bit Arm as the loops of heads and bytes want them. Empty elsewhere.
#pragma once

#if defined(__aarch64__)
#include <arm_neon.h>

#include <cstdint>

namespace axtool::postamble::neon {

// Eight values in two registers. A table of 8 floats is 32 bytes of two registers too: entry i begins at byte 4 i.
struct Lanes {
  struct Floats {
    float32x4_t first, second;
    Floats operator+(const Floats &x) const { return {vaddq_f32(first, x.first), vaddq_f32(second, x.second)}; }
    Floats operator-(const Floats &x) const { return {vsubq_f32(first, x.first), vsubq_f32(second, x.second)}; }
    Floats operator*(const Floats &x) const { return {vmulq_f32(first, x.first), vmulq_f32(second, x.second)}; }
    Floats operator/(const Floats &x) const { return {vdivq_f32(first, x.first), vdivq_f32(second, x.second)}; }
  };
  struct Index {
    uint32x4_t first, second;
  };
  using Table = uint8x16x2_t;
  static constexpr int64_t kWidth = 8;
  static Floats set(float x) { return {vdupq_n_f32(x), vdupq_n_f32(x)}; }
  static Floats load(const float *x) { return {vld1q_f32(x), vld1q_f32(x + 4)}; }
  static void store(float *out, Floats x) {
    vst1q_f32(out, x.first);
    vst1q_f32(out + 4, x.second);
  }
  static Floats real(const uint8_t *q) {
    const int16x8_t wide = vmovl_s8(vreinterpret_s8_u8(vld1_u8(q)));
    return {vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(wide)))};
  }
  static Index index(const uint8_t *q) {
    const uint16x8_t wide = vmovl_u8(vld1_u8(q));
    return {vmovl_u16(vget_low_u16(wide)), vmovl_u16(vget_high_u16(wide))};
  }
  template <int kBits>
  static Index shifted(Index u) { return {vshrq_n_u32(u.first, kBits), vshrq_n_u32(u.second, kBits)}; }
  static Table table(const float *eight) {
    return {{vreinterpretq_u8_f32(vld1q_f32(eight)), vreinterpretq_u8_f32(vld1q_f32(eight + 4))}};
  }
  static float32x4_t four(const Table &in, uint32x4_t index) {
    const uint32x4_t entry = vandq_u32(index, vdupq_n_u32(7));
    const uint32x4_t bytes = vmlaq_u32(vdupq_n_u32(0x03020100), entry, vdupq_n_u32(0x04040404));
    return vreinterpretq_f32_u8(vqtbl2q_u8(in, vreinterpretq_u8_u32(bytes)));
  }
  static Floats look(const Table &in, Index u) { return {four(in, u.first), four(in, u.second)}; }
  static Floats look_four(const Table &in, Index u) { return look(in, u); }
  static Floats first_of(Floats x, int64_t left) {
    const float numbers[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    const float32x4_t end = vdupq_n_f32(float(left));
    const auto kept = [&](float32x4_t values, const float *lanes) {
      return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(values), vcltq_f32(vld1q_f32(lanes), end)));
    };
    return {kept(x.first, numbers), kept(x.second, numbers + 4)};
  }
  static float32x4_t sums(const Floats (&of)[4]) {
    float32x4_t twos[4];
    for (int i = 0; i < 4; ++i) twos[i] = vpaddq_f32(of[i].first, of[i].second);
    return vpaddq_f32(vpaddq_f32(twos[0], twos[1]), vpaddq_f32(twos[2], twos[3]));
  }
  static void ratios(const Floats (&over)[4], const Floats (&under)[4], float *out) {
    vst1q_f32(out, vdivq_f32(sums(over), sums(under)));
  }
};

}  // namespace axtool::postamble::neon
#endif
