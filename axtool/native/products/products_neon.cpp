// NEON: pairs of int16 by two widening products and a pairwise sum, floats by fused multiply-adds.
#include "products_loops.h"
#include "products_powers.h"

#if defined(__aarch64__)
#include <arm_neon.h>

namespace axtool {
namespace {

struct NeonShorts {
  static constexpr int kRows = 4, kVectors = 4;
  using Sum = int32x4_t;
  using Right = int16x8_t;
  static Sum zero() { return vdupq_n_s32(0); }
  static Right load(const int16_t *b, int v) { return vld1q_s16(b + 8 * v); }
  static int16x8_t spread(const int16_t *a) { return vreinterpretq_s16_s32(vdupq_n_s32(pair_at(a))); }
  static Sum add(Sum sum, int16x8_t a, Right b) {
    return vaddq_s32(sum, vpaddq_s32(vmull_s16(vget_low_s16(a), vget_low_s16(b)), vmull_high_s16(a, b)));
  }
  static void store(int32_t *y, int v, Sum sum) { vst1q_s32(y + 4 * v, sum); }
};

struct NeonFloats {
  static constexpr int kRows = 4, kVectors = 4;
  using Sum = float32x4_t;
  using Right = float32x4_t;
  static Sum zero() { return vdupq_n_f32(0); }
  static Right load(const float *b, int v) { return vld1q_f32(b + 4 * v); }
  static float32x4_t spread(const float *a) { return vdupq_n_f32(*a); }
  static Sum add(Sum sum, float32x4_t a, Right b) { return vfmaq_f32(sum, a, b); }
  static void store(float *y, int v, Sum sum) { vst1q_f32(y + 4 * v, sum); }
};

}  // namespace
const Products products_neon = {all_shorts<NeonShorts>, all_floats<NeonFloats>, row_exponentials<NeonShorts>,
                                widen_halves, row_powers};
}  // namespace axtool
#else
namespace axtool {
const Products products_neon = products_portable;
}
#endif
