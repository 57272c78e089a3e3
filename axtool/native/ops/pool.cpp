// max_pool, avg_pool: windows of pixels, each channel by itself.
#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "../ops.h"
#include "pool_counts.h"

namespace axtool {

constexpr int64_t kMaxCells = int64_t(1) << 22;  // |sum of (q - zp)| < 2^31

void check_pool_window(const Layer &layer) {
  check_window(layer);
  const int64_t cells = std::min(layer.get("kernel", 0), layer.in.h) * std::min(layer.get("kernel", 1), layer.in.w);
  want(cells <= kMaxCells, std::string(layer.name()) + ": a window of more than 2^22 cells");
}

Box pool_box(const Layer &layer, const Box &tile) {
  const Interval y = looked_at(window_of(layer, 0), tile.y, tile.h, layer.in.h);
  const Interval x = looked_at(window_of(layer, 1), tile.x, tile.w, layer.in.w);
  return {y.first, x.first, tile.c, y.count, x.count, tile.n};
}

namespace {

void check_pool(const Layer &layer) {
  check_pool_window(layer);
  want(layer.in.c == layer.out.c, std::string(layer.name()) + ": input and output have different channels");
}

// ---- max_pool: down the columns into a row, then along the row -------------------------------------------------------

void needs_max(const Layer &layer, const Box &tile, int64_t, Box *of) { of[0] = pool_box(layer, tile); }

// Channels at a time, so that the row between the two steps stays in the first cache.
int64_t strip_channels(const Box &box) { return std::clamp<int64_t>(16384 / std::max<int64_t>(box.w, 1) / 32 * 32, 32, 4096); }

size_t scratch_max(const Call &call) {
  const Box box = pool_box(call.layer, call.tile);
  return empty(box) ? 0 : size_t(box.w * std::min(call.tile.n, strip_channels(box)));
}

// y = max of the rows at x, x + step, ..., any number of them.
void max_rows(const Loops &loops, const int8_t *x, int64_t step, int64_t count, int64_t w, int64_t n, int64_t x_pixel,
              int8_t *y, int64_t y_pixel) {
  const int8_t *rows[kMaxRows];
  for (int64_t done = 0; done < count;) {
    const bool keep = done > 0;
    int k = 0;
    for (; k < kMaxRows && done < count; ++k, ++done) rows[k] = x + done * step;
    loops.max(keep, k, rows, w, n, x_pixel, y, y_pixel);
  }
}

void max_pool(const Call &call) {
  const Layer &l = call.layer;
  const Box &t = call.tile, box = pool_box(l, t);
  const Window wy = window_of(l, 0), wx = window_of(l, 1);
  const int64_t channels = empty(box) ? t.n : std::min(t.n, strip_channels(box));
  int8_t *row = static_cast<int8_t *>(call.scratch);
  for (int64_t c = t.c; c < t.c + t.n; c += channels) {
    const int64_t n = std::min(channels, t.c + t.n - c);
    for (int64_t y = t.y; y < t.y + t.h; ++y) {
      const Interval ky = taps_inside(wy, y, l.in.h);
      int8_t *out = call.write.at(y, t.x, c);
      if (empty(box) || !ky.count) {
        for (int64_t x = 0; x < t.w; ++x) std::memset(out + x * call.write.pixel, -128, size_t(n));
        continue;
      }
      const int8_t *first = call.reads[0].at(y * wy.stride - wy.pad + ky.first * wy.dilation, box.x, c);
      max_rows(call.loops, first, wy.dilation * call.reads[0].row, ky.count, box.w, n, call.reads[0].pixel, row, n);
      // Outputs whose window is whole go together; those at the edges one by one.
      const int64_t whole_first = std::clamp(ceil_div(wx.pad, wx.stride), t.x, t.x + t.w);
      const int64_t last = floor_div(l.in.w - 1 - (wx.kernel - 1) * wx.dilation + wx.pad, wx.stride);
      const int64_t whole_end = std::clamp(last + 1, whole_first, t.x + t.w);
      for (int64_t x = t.x; x < t.x + t.w; ++x) {
        const bool together = x == whole_first && whole_end > whole_first;
        const Interval kx = taps_inside(wx, x, l.in.w);
        int8_t *at = out + (x - t.x) * call.write.pixel;
        if (!kx.count) {
          std::memset(at, -128, size_t(n));
          continue;
        }
        const int8_t *from = row + (x * wx.stride - wx.pad + kx.first * wx.dilation - box.x) * n;
        max_rows(call.loops, from, wx.dilation * n, kx.count, together ? whole_end - x : 1, n, wx.stride * n, at,
                 together ? call.write.pixel : n);
        if (together) x = whole_end - 1;
      }
    }
  }
}

// ---- avg_pool --------------------------------------------------------------------------------------------------------

void check_avg(const Layer &layer) {
  check_pool(layer);
  check_counted_window(layer);
  check_int8(layer, "zp"), check_int8(layer, "out_zp"), check_limits(layer);
}

void needs_avg(const Layer &layer, const Box &tile, int64_t, Box *of) {
  of[0] = pool_box(layer, tile);
  of[1] = flat(0, 12);  // one row; a count without a row is found when it occurs
}

size_t scratch_avg(const Call &call) { return size_t(call.tile.n) * sizeof(int32_t); }

void avg_pool(const Call &call) {
  const Layer &l = call.layer;
  const Box &t = call.tile;
  const Window wy = window_of(l, 0), wx = window_of(l, 1);
  const int32_t zp = int32_t(l.get("zp"));
  int32_t *sums = static_cast<int32_t *>(call.scratch);
  Requant constant{0, 0, int32_t(l.get("out_zp")), int32_t(l.get("lo")), int32_t(l.get("hi"))};
  int64_t counted = 0;  // what `constant` is for; 0 cells sum to 0
  for (int64_t y = t.y; y < t.y + t.h; ++y) {
    const Interval ky = taps_inside(wy, y, l.in.h);
    const int64_t rows = counted_cells(l, 0, y);
    for (int64_t x = t.x; x < t.x + t.w; ++x) {
      const Interval kx = taps_inside(wx, x, l.in.w);
      const int64_t count = rows * counted_cells(l, 1, x);
      if (count && count != counted) {
        const Scale found = scale_for(call, count);
        constant.m = found.m, constant.f = found.f, counted = count;
      }
      std::fill(sums, sums + t.n, count ? int32_t(-zp * ky.count * kx.count) : 0);
      for (int64_t k = 0; count && kx.count && k < ky.count; ++k) {
        const int64_t iy = y * wy.stride - wy.pad + (ky.first + k) * wy.dilation;
        const int64_t ix = x * wx.stride - wx.pad + kx.first * wx.dilation;
        call.loops.sum(kx.count, t.n, call.reads[0].at(iy, ix, t.c), wx.dilation * call.reads[0].pixel, sums);
      }
      call.loops.requantize(constant, t.n, sums, call.write.at(y, x, t.c));
    }
  }
}

}  // namespace

void check_counted_window(const Layer &layer) {
  check_pool_window(layer);
  const std::string name = layer.name();
  want(layer.get("include_pad") == 0 || layer.get("include_pad") == 1, name + ".include_pad: want 0 or 1");
  for (int axis = 0; axis < 2; ++axis)
    want(std::abs(layer.get("pad_end", axis)) < int64_t(1) << 29, name + ".pad_end reaches beyond 2^29 positions");
}

int64_t counted_cells(const Layer &layer, int axis, int64_t at) {
  const Window w = window_of(layer, axis);
  const int64_t size = axis ? layer.in.w : layer.in.h;
  if (!layer.get("include_pad")) return taps_inside(w, at, size).count;
  Window shifted = w;  // [-pad, size + pad_end) as [0, pad + size + pad_end)
  shifted.pad = 0;
  return taps_inside(shifted, at, w.pad + size + layer.get("pad_end", axis)).count;
}

Scale scale_for(const Call &call, int64_t count) {
  const Source &constants = call.reads[1];
  auto number = [&](int64_t row, int64_t column) {
    int32_t v;
    std::memcpy(&v, constants.flat(row * 12 + column * 4), sizeof v);
    return v;
  };
  const std::string name = call.layer.name();
  const int64_t rows = (constants.box.c + constants.box.n) / 12;
  for (int64_t row = 0; row < rows; ++row) {
    if (number(row, 0) != count) continue;
    const int32_t f = number(row, 2);
    if (f < 0 || f > 62) throw std::invalid_argument(name + "'s constants hold a shift of " + std::to_string(f));
    return {number(row, 1), f};
  }
  throw std::invalid_argument(name + " has no constant for windows of " + std::to_string(count) + " cells");
}

const OpInfo max_pool_op = {1, check_pool, needs_max, scratch_max, max_pool, false};
const OpInfo avg_pool_op = {2, check_avg, needs_avg, scratch_avg, avg_pool, false};

}  // namespace axtool
