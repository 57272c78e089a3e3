// The loops for Arm. Empty elsewhere.
#include "norms.h"

#if defined(__aarch64__)
#include <arm_neon.h>

#include <cstring>

namespace axtool {
namespace {

void moments(int64_t n, const int8_t *x, Moments *found) {
  int32x4_t sum = vdupq_n_s32(0), squares = vdupq_n_s32(0);
  int8x16_t low = vdupq_n_s8(127), high = vdupq_n_s8(-128);
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const int8x16_t v = vld1q_s8(x + i);
    low = vminq_s8(low, v), high = vmaxq_s8(high, v);
    sum = vpadalq_s16(sum, vpaddlq_s8(v));
    squares = vpadalq_s16(squares, vmull_s8(vget_low_s8(v), vget_low_s8(v)));
    squares = vpadalq_s16(squares, vmull_s8(vget_high_s8(v), vget_high_s8(v)));
  }
  Moments m{vaddvq_s32(sum), vaddvq_s32(squares), vminvq_s8(low), vmaxvq_s8(high)};
  add_moments(n - i, x + i, &m);
  *found = m;
}

// A rounding shift to the right that narrows adds the half and keeps the low word: (v + 2^28) >> 29.
int32x4_t four(const NormRow &r, int32x4_t x, const int32_t *pairs) {
  const int32x4_t d = vshlq_s32(vmlsq_s32(vdupq_n_s32(-r.sum), x, vdupq_n_s32(-r.count)), vdupq_n_s32(r.up));
  const int32x2_t inverse = vdup_n_s32(r.inverse);
  const int32x4_t t = vcombine_s32(vrshrn_n_s64(vmull_s32(vget_low_s32(d), inverse), 29),
                                   vrshrn_n_s64(vmull_s32(vget_high_s32(d), inverse), 29));
  const int32x4x2_t pair = vld2q_s32(pairs);  // factors, offsets
  const int32x4_t y = vcombine_s32(vrshrn_n_s64(vmull_s32(vget_low_s32(t), vget_low_s32(pair.val[0])), 30),
                                   vrshrn_n_s64(vmull_s32(vget_high_s32(t), vget_high_s32(pair.val[0])), 30));
  const int32x4_t total = vaddq_s32(vaddq_s32(y, pair.val[1]), vdupq_n_s32((1 << r.f) >> 1));
  const int32x4_t q = vshlq_s32(total, vdupq_n_s32(-r.f));
  return vaddq_s32(vminq_s32(vmaxq_s32(q, vdupq_n_s32(r.lo - r.zp)), vdupq_n_s32(r.hi - r.zp)), vdupq_n_s32(r.zp));
}

void normalize(const NormRow &r, int64_t n, const int8_t *x, const int32_t *pairs, int8_t *y) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const int16x8_t v = vmovl_s8(vld1_s8(x + i));
    const int32x4_t a = four(r, vmovl_s16(vget_low_s16(v)), pairs + 2 * i);
    const int32x4_t b = four(r, vmovl_s16(vget_high_s16(v)), pairs + 2 * i + 8);
    vst1_s8(y + i, vmovn_s16(vcombine_s16(vmovn_s32(a), vmovn_s32(b))));
  }
  for (; i < n; ++i) y[i] = normalized(r, x[i], pairs + 2 * i);
}

void fx_moments(int64_t n, const int32_t *x, FxMoments *found) {
  int64x2_t sum = vdupq_n_s64(0);
  int32x4_t low = vdupq_n_s32(INT32_MAX), high = vdupq_n_s32(INT32_MIN);
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    const int32x4_t v = vld1q_s32(x + i);
    sum = vpadalq_s32(sum, v), low = vminq_s32(low, v), high = vmaxq_s32(high, v);
  }
  FxMoments m{vaddvq_s64(sum), vminvq_s32(low), vmaxvq_s32(high)};
  fx_add_moments(n - i, x + i, &m);
  *found = m;
}

int32x2_t fx_two(const FxNormRow &r, const int32_t *x) {
  const int64x2_t d = vsubq_s64(vmull_s32(vld1_s32(x), vdup_n_s32(int32_t(r.count))), vdupq_n_s64(r.sum));
  return vmovn_s64(vshlq_s64(d, vdupq_n_s64(r.up)));
}

int64_t fx_squares(const FxNormRow &r, int64_t n, const int32_t *x) {
  int64x2_t total = vdupq_n_s64(0);
  int64_t i = 0;
  for (; i + 2 <= n; i += 2) {
    const int32x2_t d = vshr_n_s32(fx_two(r, x + i), 7);
    total = vmlal_s32(total, d, d);
  }
  return fx_add_squares(r, n - i, x + i, vaddvq_s64(total));
}

void fx_normalize(const FxNormRow &r, int64_t n, const int32_t *x, const int32_t *pairs, int32_t *y) {
  int64_t i = 0;
  for (; i + 2 <= n; i += 2) {
    const int32x2_t t = vrshrn_n_s64(vmull_s32(fx_two(r, x + i), vdup_n_s32(r.inverse)), 29);
    const int32x2x2_t pair = vld2_s32(pairs + 2 * i);
    const int64x2_t scaled = vrshlq_s64(vmull_s32(t, pair.val[0]), vdupq_n_s64(-r.shift));
    vst1_s32(y + i, vqmovn_s64(vaddw_s32(scaled, pair.val[1])));
  }
  for (; i < n; ++i) y[i] = fx_normalized(r, x[i], pairs + 2 * i);
}

// Sixteen at a time; the last sixteen may overlap those in front.
int32_t largest(int64_t n, const int8_t *x) {
  if (n < 16) return first_largest(n, x);
  int8x16_t most = vld1q_s8(x + n - 16);
  for (int64_t i = 0; i + 16 <= n; i += 16) most = vmaxq_s8(most, vld1q_s8(x + i));
  return int32_t(static_cast<const int8_t *>(std::memchr(x, uint8_t(vmaxvq_s8(most)), size_t(n))) - x);
}

}  // namespace

const NormLoops norms_neon = {"neon", moments, normalize, fx_moments, fx_squares, fx_normalize, largest};

}  // namespace axtool
#endif
