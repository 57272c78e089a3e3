// The loops of heads.h for 64-bit Arm. Empty elsewhere.
#include "postamble/heads.h"

#if defined(__aarch64__)
#include <arm_neon.h>

#include <algorithm>
#include <cstring>

namespace axtool::postamble {
namespace neon {

struct Wide {
  static constexpr int64_t kWidth = 8;
  struct Affine {
    explicit Affine(const Strip &s) : scale(vdupq_n_f32(s.scale)), zero(vdupq_n_f32(s.zero)) {}
    void store(const uint8_t *q, float *out) const {
      const int16x8_t wide = vmovl_s8(vreinterpret_s8_u8(vld1_u8(q)));
      vst1q_f32(out, real(vmovl_s16(vget_low_s16(wide))));
      vst1q_f32(out + 4, real(vmovl_s16(vget_high_s16(wide))));
    }
    float32x4_t real(int32x4_t x) const { return vmulq_f32(vsubq_f32(vcvtq_f32_s32(x), zero), scale); }
    float32x4_t scale, zero;
  };
  // exp as a product of three tables. One of 8 floats is 32 bytes of two registers: entry i begins at byte 4 i.
  struct Exponential {
    static constexpr bool kSoftmax = false;
    explicit Exponential(const Strip &s)
        : high(table(s.factors.data())), middle(table(s.factors.data() + 8)), low(table(s.factors.data() + 16)) {}
    static uint8x16x2_t table(const float *eight) {
      return {{vreinterpretq_u8_f32(vld1q_f32(eight)), vreinterpretq_u8_f32(vld1q_f32(eight + 4))}};
    }
    static float32x4_t look(const uint8x16x2_t &in, uint32x4_t index) {
      const uint32x4_t entry = vandq_u32(index, vdupq_n_u32(7));
      const uint32x4_t bytes = vmlaq_u32(vdupq_n_u32(0x03020100), entry, vdupq_n_u32(0x04040404));
      return vreinterpretq_f32_u8(vqtbl2q_u8(in, vreinterpretq_u8_u32(bytes)));
    }
    float32x4_t of(uint32x4_t u) const {
      const float32x4_t coarse = vmulq_f32(look(high, vshrq_n_u32(u, 6)), look(middle, vshrq_n_u32(u, 3)));
      return vmulq_f32(coarse, look(low, u));
    }
    template <class Function>
    void both(const uint8_t *q, float *out, Function function) const {
      const uint16x8_t wide = vmovl_u8(vld1_u8(q));
      vst1q_f32(out, function(of(vmovl_u16(vget_low_u16(wide)))));
      vst1q_f32(out + 4, function(of(vmovl_u16(vget_high_u16(wide)))));
    }
    void store(const uint8_t *q, float *out) const { both(q, out, [](float32x4_t e) { return e; }); }
    uint8x16x2_t high, middle, low;
  };
  struct Sigmoid : Exponential {
    using Exponential::Exponential;
    void store(const uint8_t *q, float *out) const {
      const float32x4_t one = vdupq_n_f32(1);
      both(q, out, [&](float32x4_t e) { return vdivq_f32(one, vaddq_f32(one, e)); });
    }
  };
  struct Tanh : Exponential {
    using Exponential::Exponential;
    void store(const uint8_t *q, float *out) const {
      const float32x4_t one = vdupq_n_f32(1);
      both(q, out, [&](float32x4_t e) { return vdivq_f32(vsubq_f32(one, e), vaddq_f32(one, e)); });
    }
  };
};
#include "postamble/heads.inc"

}  // namespace neon

const HeadLoops heads_neon = {"neon", neon::row};

}  // namespace axtool::postamble
#endif
