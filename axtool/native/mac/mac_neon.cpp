// aarch64 with the dot product extension: sdot by lane on the bytes as they are. 4 pixels x 16 channels in 16
// registers; 16 bytes of each pixel are four lanes, each against four weight vectors.
#include "mac_variants.h"

#if defined(__aarch64__) && defined(__ARM_FEATURE_DOTPROD)
#include <arm_neon.h>

#include "mac_conv.h"
#include "mac_depthwise.h"

namespace axtool {
namespace {

// floor(acc * m / 2^f + 1/2) for every f from 0 to 62, saturated to int32, which no clamp after it can tell.
inline int32x4_t neon_scale(int32x4_t acc, const int32_t *m, const int32_t *f) {
  const int32x4_t shift = vnegq_s32(vld1q_s32(f));
  const int64x2_t low = vrshlq_s64(vmull_s32(vget_low_s32(acc), vld1_s32(m)), vmovl_s32(vget_low_s32(shift)));
  const int64x2_t high = vrshlq_s64(vmull_s32(vget_high_s32(acc), vld1_s32(m + 2)), vmovl_s32(vget_high_s32(shift)));
  return vcombine_s32(vqmovn_s64(low), vqmovn_s64(high));
}

inline void neon_interpolate(const MacTask &t, const int16x8_t *v, int8_t *q) {
  int16_t values[16];
  vst1q_s16(values, v[0]), vst1q_s16(values + 8, v[1]);
  for (int i = 0; i < 16; ++i) {
    const int at = (values[i] >> 6) + 512, fr = values[i] & 63;
    const int sum = (t.table[at] * (64 - fr) + t.table[at + 1] * fr + (1 << 12)) >> 13;
    q[i] = int8_t(mac_max(t.lo, mac_min(t.hi, sum)));
  }
}

inline void neon_finish(const MacTask &t, const BlockOut &out, const int32x4_t *acc, int8_t *y) {
  int16x8_t v[2];
  for (int i = 0; i < 2; ++i) {
    const int c = 8 * i;
    v[i] = vcombine_s16(vqmovn_s32(neon_scale(acc[2 * i], out.params + 16 + c, out.params + 32 + c)),
                        vqmovn_s32(neon_scale(acc[2 * i + 1], out.params + 20 + c, out.params + 36 + c)));
  }
  int8_t q[16];
  if (t.act) {
    neon_interpolate(t, v, q);
  } else {
    const int16x8_t zp = vdupq_n_s16(int16_t(t.out_zp));
    const int8x16_t bytes = vcombine_s8(vqmovn_s16(vqaddq_s16(v[0], zp)), vqmovn_s16(vqaddq_s16(v[1], zp)));
    vst1q_s8(q, vminq_s8(vmaxq_s8(bytes, vdupq_n_s8(int8_t(t.lo))), vdupq_n_s8(int8_t(t.hi))));
  }
  if (out.channels == 16)
    memcpy(y, q, 16);
  else
    memcpy(y, q, size_t(out.channels));
}

struct Neon {
  static constexpr bool kValues = false;
  using X = int8_t;
  using W = int8_t;
  using Step = MacRun;
  static constexpr int kCopies = 1, offset = 0, kPixels = 4, kBlocks = 1;
  static constexpr int64_t kBandBytes = 96 << 10;

  static void expand(const int8_t *src, int8_t *dst, int n) { memcpy(dst, src, size_t(n)); }
  static size_t weight_elements(int) { return 0; }
  static void prepare(const int8_t *, int8_t *, int) {}

  template <int N>
  static void tile_of(const MacTask &t, const int8_t *const *p, const MacRun *runs, int count, const int8_t *w,
                      const BlockOut &out, int8_t *const *y, int c) {
    int32x4_t acc[N][4];
    for (int i = 0; i < N; ++i)
      for (int j = 0; j < 4; ++j) acc[i][j] = vld1q_s32(out.bias + 4 * j);
    for (int r = 0; r < count; ++r) {
      const int8_t *wr = w + int64_t(runs[r].w) * 64;
      int64_t x = runs[r].x;
      const int64_t end = x + runs[r].quads * 4;
      for (; x + 16 <= end; x += 16, wr += 256) {
        int8x16_t v[N];
        for (int i = 0; i < N; ++i) v[i] = vld1q_s8(p[i] + x);
        for (int j = 0; j < 4; ++j) {
          const int8x16_t w0 = vld1q_s8(wr + 16 * j), w1 = vld1q_s8(wr + 64 + 16 * j);
          const int8x16_t w2 = vld1q_s8(wr + 128 + 16 * j), w3 = vld1q_s8(wr + 192 + 16 * j);
          for (int i = 0; i < N; ++i) acc[i][j] = vdotq_laneq_s32(acc[i][j], w0, v[i], 0);
          for (int i = 0; i < N; ++i) acc[i][j] = vdotq_laneq_s32(acc[i][j], w1, v[i], 1);
          for (int i = 0; i < N; ++i) acc[i][j] = vdotq_laneq_s32(acc[i][j], w2, v[i], 2);
          for (int i = 0; i < N; ++i) acc[i][j] = vdotq_laneq_s32(acc[i][j], w3, v[i], 3);
        }
      }
      for (; x < end; x += 4, wr += 64)
        for (int i = 0; i < N; ++i) {
          int32_t quad;
          memcpy(&quad, p[i] + x, 4);
          const int8x16_t v = vreinterpretq_s8_s32(vdupq_n_s32(quad));
          for (int j = 0; j < 4; ++j) acc[i][j] = vdotq_s32(acc[i][j], vld1q_s8(wr + 16 * j), v);
        }
    }
    for (int i = 0; i < N; ++i) {
      const int32x4_t sums[4] = {acc[i][0], acc[i][1], acc[i][2], acc[i][3]};
      neon_finish(t, out, sums, y[i] + c);
    }
  }

  static void tile(const MacTask &t, int n, int, const int8_t *const *p, const MacRun *runs, int count, const int8_t *w,
                   int64_t, const BlockOut *out, int8_t *const *y, int c) {
    switch (n) {
      case 1: return tile_of<1>(t, p, runs, count, w, *out, y, c);
      case 2: return tile_of<2>(t, p, runs, count, w, *out, y, c);
      case 3: return tile_of<3>(t, p, runs, count, w, *out, y, c);
      default: return tile_of<4>(t, p, runs, count, w, *out, y, c);
    }
  }
};

struct NeonDepthwise {
  static constexpr bool kValues = false;
  static constexpr int kPixels = 4, kTaps = 1;

  static void widen(const int8_t *src, int16_t *dst) {
    const int8x16_t v = vld1q_s8(src);
    vst1q_s16(dst, vmovl_s8(vget_low_s8(v))), vst1q_s16(dst + 8, vmovl_s8(vget_high_s8(v)));
  }

  static void fill(const int8_t *line, const int8_t *, int16_t *dst, int n, int step) {
    for (int i = 0; i < n; ++i, line += step, dst += 16) widen(line, dst);
  }

  static void prepare(const int8_t *w0, const int8_t *, int16_t *dst) { widen(w0, dst); }

  template <int N>
  static void tile_of(const MacTask &t, const int16_t *p, int64_t step, const int32_t *taps, int count,
                      const int16_t *w, const BlockOut &out, int8_t *y) {
    int32x4_t acc[N][4];
    for (int i = 0; i < N; ++i)
      for (int j = 0; j < 4; ++j) acc[i][j] = vld1q_s32(out.bias + 4 * j);
    for (int k = 0; k < count; ++k, w += 16) {
      const int16x8_t w0 = vld1q_s16(w), w1 = vld1q_s16(w + 8);
      for (int i = 0; i < N; ++i) {
        const int16_t *x = p + taps[k] + i * step;
        const int16x8_t x0 = vld1q_s16(x), x1 = vld1q_s16(x + 8);
        acc[i][0] = vmlal_s16(acc[i][0], vget_low_s16(x0), vget_low_s16(w0));
        acc[i][1] = vmlal_high_s16(acc[i][1], x0, w0);
        acc[i][2] = vmlal_s16(acc[i][2], vget_low_s16(x1), vget_low_s16(w1));
        acc[i][3] = vmlal_high_s16(acc[i][3], x1, w1);
      }
    }
    for (int i = 0; i < N; ++i) {
      const int32x4_t sums[4] = {acc[i][0], acc[i][1], acc[i][2], acc[i][3]};
      neon_finish(t, out, sums, y + i * t.y_pixel);
    }
  }

  static void tile(const MacTask &t, int n, const int16_t *p, int64_t step, const int32_t *taps, int count,
                   const int16_t *w, const BlockOut &out, int8_t *y) {
    switch (n) {
      case 1: return tile_of<1>(t, p, step, taps, count, w, out, y);
      case 2: return tile_of<2>(t, p, step, taps, count, w, out, y);
      case 3: return tile_of<3>(t, p, step, taps, count, w, out, y);
      default: return tile_of<4>(t, p, step, taps, count, w, out, y);
    }
  }
};
}  // namespace

size_t mac_scratch_neon(const MacTask &t) {
  if (t.kind == MacKind::depthwise) return DepthwiseDriver<NeonDepthwise>(t, nullptr).scratch_bytes;
  return ConvDriver<Neon>(t, nullptr).scratch_bytes;
}

void run_mac_neon(const MacTask &t, void *scratch) {
  if (t.kind == MacKind::depthwise) return DepthwiseDriver<NeonDepthwise>(t, scratch).run();
  ConvDriver<Neon>(t, scratch).run();
}

bool mac_built_neon() { return true; }
}  // namespace axtool
#else
namespace axtool {
size_t mac_scratch_neon(const MacTask &) { return 64; }
void run_mac_neon(const MacTask &t, void *) { run_mac_portable(t); }
bool mac_built_neon() { return false; }
}  // namespace axtool
#endif
