// AVX2: 1x1 convolution of few inputs, pixels before channels.
//
// With few inputs the products are soon done, and what counts is memory: channel by channel over a band, every line of
// the output is fetched once for each 16 channels of it. So here the weights of all channels are prepared once, and a
// few pixels at a time are widened and finished in all channels while both stay in the first cache.
#pragma once
#include "mac_avx2_finish.h"
#include "mac_avx2_fused.h"
#include "mac_avx2_sums.h"
#include "mac_block.h"
#include "mac_plan.h"
#include "mac_scalar.h"

namespace axtool {
namespace {

template <class I>
struct Avx2Direct {
  static constexpr int kPixels = 6;
  static constexpr int64_t kBatchBytes = 16 << 10, kWeightBytes = 192 << 10;

  const MacTask &t;
  const int quads, blocks, batch;   // batch: pixels at a time
  int16_t *weights;                 // [block][quad] as I::prepare makes them
  int16_t *wide;                    // [pixel][channel], whole quads
  const int16_t **from;             // [pixel]
  int8_t **to;
  BlockOut *outs;                   // [block]
  Avx2Fused *fused;                 // [block]
  size_t scratch_bytes;

  Avx2Direct(const MacTask &task, void *scratch)
      : t(task), quads(mac_quads(t.in_c)), blocks(mac_blocks(t.on)),
        batch(int(mac_clamp(kBatchBytes / (quads * 8 + t.on) / kPixels, 2, 32)) * kPixels) {
    Carve carve{static_cast<char *>(scratch)};
    weights = static_cast<int16_t *>(carve.take(size_t(blocks) * quads * 128));
    wide = static_cast<int16_t *>(carve.take(size_t(batch) * quads * 8));
    from = static_cast<const int16_t **>(carve.take(sizeof(int16_t *) * batch));
    to = static_cast<int8_t **>(carve.take(sizeof(int8_t *) * batch));
    outs = static_cast<BlockOut *>(carve.take(sizeof(BlockOut) * blocks));
    fused = static_cast<Avx2Fused *>(carve.take(sizeof(Avx2Fused) * blocks));
    scratch_bytes = carve.used;
  }

  static bool inside(int first, int count, int stride, int from, int size) {
    return first * stride >= from && (first + count - 1) * stride < from + size;
  }
  // No pixel of it lies outside the tensor, and preparing the weights pays. With a table the looking up is what counts,
  // and that is better done for a band than for a few pixels.
  static bool suits(const MacTask &t) {
    return t.kind == MacKind::conv && t.act == 0 && t.group == 1 && t.kh == 1 && t.kw == 1 && t.pt == 0 && t.pl == 0 &&
           inside(t.oy, t.oh, t.sh, t.view_y, t.view_h) && inside(t.ox, t.ow, t.sw, t.view_x, t.view_w) &&
           t.oh * t.ow >= 40 && int64_t(mac_quads(t.in_c)) * mac_blocks(t.on) * 128 <= kWeightBytes;
  }

  void run() {
    for (int b = 0; b < blocks; ++b) {
      mac_set_out(&outs[b], t.params + int64_t(b) * 64, mac_min(16, t.on - 16 * b), nullptr);
      memcpy(outs[b].bias, outs[b].params, sizeof outs[b].bias);
      if (Avx2Fused::suits(t, outs[b])) fused[b].set(t, outs[b]);
      prepare(b);
    }
    for (int i = 0; i < batch; ++i) from[i] = wide + int64_t(i) * quads * 4;
    const int pixels = t.oh * t.ow, batches = (pixels + batch - 1) / batch;
    for (int i = 0, y = 0, x = 0; i < batches; ++i) {
      const int n = int(int64_t(pixels) * (i + 1) / batches) - int(int64_t(pixels) * i / batches);
      for (int p = 0; p < n;) {
        const int some = mac_min(n - p, t.ow - x);
        take(p, some, y, x);
        p += some, x += some;
        if (x == t.ow) x = 0, ++y;
      }
      run_batch(n);
    }
  }

  void prepare(int b) {
    const int8_t *src = t.w + int64_t(b) * quads * 64;
    int16_t *dst = weights + int64_t(b) * quads * 64;
    if (!Avx2Fused::suits(t, outs[b])) return I::prepare(src, dst, quads);
    for (int q = 0; q < quads; ++q, src += 64, dst += 64) {
      __m256i ordered[2];
      Avx2Fused::order(src, ordered, ordered + 1);
      I::prepare(reinterpret_cast<const int8_t *>(ordered), dst, 1);
    }
  }

  // n pixels of output row y from column x on, as pixels p.. of the batch.
  void take(int p, int n, int y, int x) {
    const int64_t step = t.sw * t.x_pixel;
    const int8_t *src = t.x + ((t.oy + y) * t.sh - t.view_y) * t.x_row + ((t.ox + x) * t.sw - t.view_x) * t.x_pixel;
    int16_t *dst = wide + int64_t(p) * quads * 4;
    if (step == quads * 4) {
      I::expand(src, dst, (n - 1) * quads * 4 + t.in_c);  // what lies between two pixels meets zero weights
      for (int i = t.in_c; i < quads * 4; ++i) dst[int64_t(n - 1) * quads * 4 + i] = 0;
    } else {
      for (int i = 0; i < n; ++i, src += step, dst += quads * 4) {
        I::expand(src, dst, t.in_c);
        for (int c = t.in_c; c < quads * 4; ++c) dst[c] = 0;
      }
    }
    int8_t *y_at = t.y + y * t.y_row + x * t.y_pixel;
    for (int i = 0; i < n; ++i, y_at += t.y_pixel) to[p + i] = y_at;
  }

  void run_batch(int pixels) {
    for (int b = 0; b < blocks; ++b) {
      const int16_t *w = weights + int64_t(b) * quads * 64;
      if (Avx2Fused::suits(t, outs[b])) {
        // the last group begins where it is whole: some bytes are written twice
        for (int p = 0; p < pixels; p += kPixels) {
          const int at = mac_min(p, pixels - kPixels);
          avx2_fused(from[at], int64_t(quads) * 8, quads, w, fused[b], to + at, 16 * b);
        }
      } else {
        for (int p = 0; p < pixels; p += kPixels) run_group(b, p, mac_min(kPixels, pixels - p), w);
      }
    }
  }

  void run_group(int b, int p, int n, const int16_t *w) {
    const MacRun all = {0, 0, quads};
    __m256i sums[kPixels][2];
    if (outs[b].channels > 8)
      avx2_sums(n, from + p, &all, 1, w, outs[b].bias, sums);
    else
      avx2_half_sums(n, from + p, quads, w, outs[b].bias, sums);
    avx2_finish(t, outs[b], n, sums, to + p, 16 * b);
  }
};
}  // namespace
}  // namespace axtool
