// wide_conv and wide_depthwise of a box, for an instruction set I: bands of int16, blocks of 16 channels, groups of
// pixels. |x * w| <= 2^22, so an int32 holds any 511 products; which sums it holds whole, the weights decide.
//
// I gives:
//   kPixels                                       most pixels of one call
//   expand(x_bytes, src, dst, n)                  n numbers to int16
//   kFew, few_sums(n, p, runs, count, w, ...)     of so few pixels sums are made with the weights as they are stored
//   prepare(src, dst, quads)                      [16][4] int8 -> [2][16][2] int16 of each quad
//   sums(n, p, runs, count, w, start, sums)       sums[i] = start + x * w over the runs, p[i]: where the input begins
//   prepare_taps(src, dst, taps)                  [tap][16] int8 -> a pair of int16 of each channel, of two taps
//   tap_sums(n, p, at, pairs, w, start, sums)     the same for 16 channels, each by itself; at: where each tap begins
//   finish(t, out, n, sums, y)                    int32 or int64 sums of n pixels -> y[i]
#pragma once
#include <algorithm>

#include "../mac/mac_block.h"
#include "../mac/mac_plan.h"
#include "wide_scalar.h"

namespace axtool {
namespace {

constexpr int64_t kWideBandBytes = 128 << 10;
constexpr int kWideQuads = 127;  // whose products an int32 holds

// How the sums of one block of channels become numbers.
struct WideOut {
  int channels;     // that are stored
  bool narrow;      // every sum, with its bias, fits an int32
  bool plain;       // every f is 31, and no m is negative
  bool split;       // every f is 20 .. 52, and no m is negative
  int32_t bias[16], m[16], f[16];
};

// most: what |x| is at most. reach: the sum of |w| of each channel.
inline WideOut wide_out(const int32_t *params, int channels, int64_t most, const int64_t *reach) {
  WideOut out{channels, true, true, true, {}, {}, {}};
  for (int i = 0; i < 16; ++i) {
    const bool stored = i < channels;
    out.bias[i] = params[i];
    out.m[i] = stored ? params[16 + i] : 0, out.f[i] = stored ? params[32 + i] : 31;
    out.narrow &= reach[i] * most + std::abs(int64_t(params[i])) < int64_t(1) << 31;
    out.plain &= out.f[i] == 31 && out.m[i] >= 0;
    out.split &= out.f[i] >= 20 && out.f[i] <= 52 && out.m[i] >= 0;
  }
  return out;
}

inline void wide_put(const WideTask &t, int8_t *y, int i, int64_t q) {
  if (t.out_bytes == 1) wide_store<1>(y, i, q);
  else wide_store<2>(y, i, q);
}

// One sum of channel i -> its place in y.
inline void wide_finish_one(const WideTask &t, const WideOut &out, int64_t sum, int i, int8_t *y) {
  const MacTask &mac = t.mac;
  const int64_t q = wide_requantize(sum, out.m[i], out.f[i]);
  if (mac.act == 0) return wide_put(t, y, i, wide_clamp(q + mac.out_zp, mac.lo, mac.hi));
  const int v = int(wide_clamp(q, -32768, 32767));
  const int64_t value = wide_interpolate<int16_t>(reinterpret_cast<const int8_t *>(mac.table), v);
  wide_put(t, y, i, wide_clamp(value, mac.lo, mac.hi));
}

template <class I>
struct WideDriver {
  const WideTask &task;
  const MacTask &t;
  const bool depthwise;
  const int cin, cout, quads, pixel;  // of one group; pixel = numbers of a band pixel
  const int band_rows;
  MacPhase phase;
  MacRun *runs, *chunks;              // chunks: the runs, cut so that groups of them are at most kWideQuads
  int *chunk_ends;
  int64_t *taps;
  const int16_t **from;               // [pixels of the band] where a pixel's input begins in the band
  int8_t **to;                        // [pixels of the band] and its output in y, channel 0 of the box
  int16_t *band, *weights;
  size_t scratch_bytes;

  WideDriver(const WideTask &wide, void *scratch)
      : task(wide), t(wide.mac), depthwise(t.kind == MacKind::depthwise), cin(depthwise ? 1 : t.in_c / t.group),
        cout(depthwise ? t.out_c : t.out_c / t.group), quads(mac_quads(cin)),
        pixel(depthwise ? mac_blocks(t.on) * 16 : quads * 4),
        band_rows(mac_band_rows(t, pixel * int64_t(sizeof(int16_t)), kWideBandBytes)) {
    const int64_t all_taps = int64_t(t.kh) * t.kw, all_quads = all_taps * quads;
    Carve carve{static_cast<char *>(scratch)};
    auto take = [&](auto **at, int64_t count) {
      *at = static_cast<std::remove_reference_t<decltype(**at)> *>(carve.take(sizeof(**at) * size_t(count)));
    };
    take(&runs, all_taps);
    take(&chunks, all_taps + all_quads / kWideQuads + 1);
    take(&chunk_ends, all_quads / kWideQuads + 1);
    take(&taps, all_taps + 1);
    take(&from, int64_t(band_rows) * t.ow);
    take(&to, int64_t(band_rows) * t.ow);
    take(&weights, depthwise ? (all_taps + 1) * 16 : all_quads * 64);
    take(&band, band_numbers() + 64);
    scratch_bytes = carve.used;
  }

  int64_t band_numbers() const {
    const int64_t rows = t.kh == 1 ? band_rows : int64_t(band_rows - 1) * t.sh + int64_t(t.kh - 1) * t.dh + 1;
    const int64_t cols = t.kw == 1 ? t.ow : int64_t(t.ow - 1) * t.sw + int64_t(t.kw - 1) * t.dw + 1;
    return rows * cols * pixel;
  }

  void run() {
    for (int first = 0; first < t.oh; first += band_rows) {
      const int rows = mac_min(band_rows, t.oh - first);
      const MacBand plan = mac_plan_band(t, first, rows, pixel, quads, !depthwise, &phase, runs);
      list_pixels();
      if (depthwise) run_depthwise(plan);
      else run_conv(plan);
    }
  }

  void list_pixels() {
    int n = 0;
    for (int y = 0; y < phase.rows; ++y)
      for (int x = 0; x < phase.cols; ++x, ++n) {
        from[n] = band + (phase.base + int64_t(y) * phase.base_row + int64_t(x) * phase.base_col);
        to[n] = t.y + (phase.y0 + y) * t.y_row + (phase.x0 + x) * t.y_pixel;
      }
  }

  // ---- conv: the band holds the channels of one group ----------------------------------------------------------------

  void run_conv(const MacBand &plan) {
    const int end = t.oc + t.on, blocks = mac_blocks(cout), all_quads = t.kh * t.kw * quads;
    const int first_block = t.oc / cout * blocks + t.oc % cout / 16;
    const int chunk_count = cut_chunks();
    for (int group = t.oc / cout; group * cout < end; ++group) {
      fill_band(plan, [&](const int8_t *src, int16_t *dst) {
        I::expand(task.x_bytes, src + int64_t(group) * cin * task.x_bytes, dst, cin);
        for (int i = cin; i < pixel; ++i) dst[i] = 0;
      });
      const int c1 = mac_min(end, (group + 1) * cout);
      for (int c = mac_max(t.oc, group * cout); c < c1; c += 16) {
        const int block = group * blocks + (c - group * cout) / 16 - first_block;
        const int8_t *stored = t.w + int64_t(block) * all_quads * 64;
        const bool few = phase.rows * phase.cols <= I::kFew;
        if (!few) I::prepare(stored, weights, all_quads);
        const WideOut out = out_of<4>(block, mac_min(16, c1 - c), few ? nullptr : stored, all_quads);
        run_pixels(out, c - t.oc, chunk_count,
                   [&](int n, const int16_t *const *p, int first, int last, const int32_t *start, int32_t(*sums)[16]) {
                     const MacRun *own = first < 0 ? runs : chunks + first;
                     const int count = last - mac_max(first, 0);
                     if (few) I::few_sums(n, p, own, count, stored, start, sums);
                     else I::sums(n, p, own, count, weights, start, sums);
                   });
      }
    }
  }

  // Groups of runs that an int32 holds: returns how many, their ends in chunk_ends.
  int cut_chunks() {
    int used = 0, groups = 0, room = kWideQuads;
    for (int r = 0; r < phase.runs; ++r)
      for (MacRun left = runs[r]; left.quads > 0;) {
        const int taken = mac_min(left.quads, room);
        chunks[used++] = {left.x, left.w, taken};
        left.x += taken * 4, left.w += taken, left.quads -= taken, room -= taken;
        if (room == 0) chunk_ends[groups++] = used, room = kWideQuads;
      }
    if (room < kWideQuads) chunk_ends[groups++] = used;
    return groups;
  }

  // ---- depthwise: the band holds an input for each channel of the box ------------------------------------------------

  void run_depthwise(const MacBand &plan) {
    const int multiplier = t.out_c / t.in_c, all_taps = t.kh * t.kw, pairs = (all_taps + 1) / 2;
    fill_band(plan, [&](const int8_t *src, int16_t *dst) {
      if (multiplier == 1) I::expand(task.x_bytes, src + int64_t(t.oc) * task.x_bytes, dst, t.on);
      else
        for (int o = 0; o < t.on; ++o) I::expand(task.x_bytes, src + (t.oc + o) / multiplier * task.x_bytes, dst + o, 1);
      for (int i = t.on; i < pixel; ++i) dst[i] = 0;
    });
    for (int i = 0; i < all_taps; ++i) taps[i] = runs[i].x;
    taps[all_taps] = taps[0];  // of a weight of 0
    const int chunk_pairs = 2 * kWideQuads, chunk_count = (pairs + chunk_pairs - 1) / chunk_pairs;
    for (int i = 0; i < chunk_count; ++i) chunk_ends[i] = mac_min(pairs, (i + 1) * chunk_pairs);
    for (int c = 0; c < t.on; c += 16) {
      const int8_t *stored = t.w + int64_t(c / 16) * all_taps * 16;
      I::prepare_taps(stored, weights, all_taps);
      run_pixels(out_of<1>(c / 16, mac_min(16, t.on - c), stored, all_taps), c, chunk_count,
                 [&](int n, const int16_t *const *p, int first, int last, const int32_t *start, int32_t(*sums)[16]) {
                   const int16_t *at[I::kPixels];
                   for (int i = 0; i < n; ++i) at[i] = p[i] + c;
                   const int begin = mac_max(first, 0), count = first < 0 ? pairs : last - begin;
                   I::tap_sums(n, at, taps + 2 * begin, count, weights + 32 * begin, start, sums);
                 });
    }
  }

  // ---- both ----------------------------------------------------------------------------------------------------------

  // The band's input: x_zp where it lies outside the tensor, else what `pixel_of` makes of a pixel's first byte.
  template <class PixelOf>
  void fill_band(const MacBand &plan, const PixelOf &pixel_of) {
    for (int r = 0; r < plan.in_rows; ++r) {
      int16_t *dst = band + int64_t(r) * plan.in_cols * pixel;
      const MacSpan inside = mac_inside(t, plan, r);
      std::fill(dst, dst + int64_t(inside.left) * pixel, int16_t(t.x_zp));
      std::fill(dst + int64_t(inside.right) * pixel, dst + int64_t(plan.in_cols) * pixel, int16_t(t.x_zp));
      const int8_t *src = inside.x;
      for (int x = inside.left; x < inside.right; ++x, src += plan.ix_step * t.x_pixel)
        pixel_of(src, dst + int64_t(x) * pixel);
    }
  }

  // lane: weights of a channel that lie side by side. Without `stored` they are taken to be as large as they can be.
  template <int lane>
  WideOut out_of(int block, int channels, const int8_t *stored, int steps) const {
    int32_t sums[16 * lane] = {};  // of at most 2^24 weights
    for (int s = 0; stored && s < steps; ++s, stored += 16 * lane)
      for (int i = 0; i < 16 * lane; ++i) sums[i] += std::abs(int32_t(stored[i]));
    int64_t reach[16] = {};
    for (int i = 0; i < 16 * lane; ++i) reach[i / lane] += stored ? sums[i] : steps * int64_t(128);
    return wide_out(t.params + int64_t(block) * 64, channels, task.x_bytes == 1 ? 128 : 32768, reach);
  }

  // sums_of(n, p, first, last, start, sums): of all (first < 0), or of chunks first .. last.
  template <class SumsOf>
  void run_pixels(const WideOut &out, int c, int chunk_count, const SumsOf &sums_of) {
    static constexpr int32_t zeros[16] = {};
    alignas(32) int32_t sums[I::kPixels][16];
    int8_t *y[I::kPixels];
    const int pixels = phase.rows * phase.cols, groups = (pixels + I::kPixels - 1) / I::kPixels;
    for (int g = 0, at = 0, n; g < groups; ++g, at += n) {
      n = (pixels - at) / (groups - g);
      for (int i = 0; i < n; ++i) y[i] = to[at + i] + int64_t(c) * task.out_bytes;
      if (out.narrow) {
        sums_of(n, from + at, -1, phase.runs, out.bias, sums);
        I::finish(task, out, n, sums, y);
        continue;
      }
      alignas(32) int64_t totals[I::kPixels][16];
      for (int i = 0; i < n; ++i) std::copy(out.bias, out.bias + 16, totals[i]);
      for (int k = 0, first = 0; k < chunk_count; first = chunk_ends[k++]) {
        sums_of(n, from + at, first, chunk_ends[k], zeros, sums);
        for (int i = 0; i < n; ++i)
          for (int l = 0; l < 16; ++l) totals[i][l] += sums[i][l];
      }
      I::finish(task, out, n, totals, y);
    }
  }
};

}  // namespace
}  // namespace axtool
