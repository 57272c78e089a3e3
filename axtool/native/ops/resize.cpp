// resize_nearest, resize_linear at integer factors.
#include <algorithm>
#include <cstring>

#include "../ops.h"

namespace axtool {
namespace {

void check_factor(const Layer &layer) {
  const int64_t fy = layer.get("factor", 0), fx = layer.get("factor", 1);
  want(fy >= 1 && fx >= 1 && fy <= 512 && fx <= 512, std::string(layer.name()) + ".factor: want 1..512");
  want(layer.in.c == layer.out.c, std::string(layer.name()) + ": input and output have different channels");
  want(layer.out.h == layer.in.h * fy && layer.out.w == layer.in.w * fx,
       std::string(layer.name()) + ": the output is not factor times the input");
}

size_t no_scratch(const Call &) { return 0; }

// ---- nearest ---------------------------------------------------------------------------------------------------------

void needs_nearest(const Layer &layer, const Box &t, int64_t, Box *of) {
  const int64_t fy = layer.get("factor", 0), fx = layer.get("factor", 1);
  const int64_t y = t.y / fy, x = t.x / fx;
  of[0] = {y, x, t.c, (t.y + t.h - 1) / fy - y + 1, (t.x + t.w - 1) / fx - x + 1, t.n};
}

void resize_nearest(const Call &call) {
  const Box &t = call.tile;
  const int64_t fy = call.layer.get("factor", 0), fx = call.layer.get("factor", 1);
  const Source &in = call.reads[0];
  for (int64_t y = t.y; y < t.y + t.h; ++y) {
    int8_t *out = call.write.at(y, t.x, t.c);
    if (y > t.y && y / fy == (y - 1) / fy) {  // the row above, once more
      copy_box(out - call.write.row, 0, call.write.pixel, out, 0, call.write.pixel, 1, t.w, t.n);
      continue;
    }
    for (int64_t x = t.x; x < t.x + t.w;) {  // each input pixel as often as it fits
      const int64_t end = std::min((x / fx + 1) * fx, t.x + t.w);
      copy_box(in.at(y / fy, x / fx, t.c), 0, 0, call.write.at(y, x, t.c), 0, call.write.pixel, 1, end - x, t.n);
      x = end;
    }
  }
}

// ---- linear ----------------------------------------------------------------------------------------------------------

struct Tap {
  int64_t first, second;  // input positions
  int32_t weight;         // of the second, over 2 * factor
};

// As if the input went on behind its edges by one.
Tap tap_anywhere(int64_t at, int64_t factor, int64_t mode) {
  const int64_t numerator = mode == 0 ? 2 * at + 1 - factor : 2 * at;
  const int64_t first = floor_div(numerator, 2 * factor);
  return {first, first + 1, int32_t(numerator - first * 2 * factor)};
}

Tap tap(int64_t at, int64_t factor, int64_t mode, int64_t size) {
  const Tap t = tap_anywhere(at, factor, mode);
  return {clamp(t.first, 0, size - 1), clamp(t.second, 0, size - 1), t.weight};
}

void check_linear(const Layer &layer) {
  check_factor(layer);
  want(layer.get("mode") == 0 || layer.get("mode") == 1, "resize_linear.mode: want 0 or 1");
  check_int8(layer, "zp"), check_int8(layer, "out_zp"), check_scale(layer, "m", "f");
}

Interval linear_range(int64_t at, int64_t count, int64_t factor, int64_t mode, int64_t size) {
  const int64_t first = tap(at, factor, mode, size).first;
  return {first, tap(at + count - 1, factor, mode, size).second - first + 1};
}

void needs_linear(const Layer &layer, const Box &t, int64_t, Box *of) {
  const Interval y = linear_range(t.y, t.h, layer.get("factor", 0), layer.get("mode"), layer.in.h);
  const Interval x = linear_range(t.x, t.w, layer.get("factor", 1), layer.get("mode"), layer.in.w);
  of[0] = {y.first, x.first, t.c, y.count, x.count, t.n};
}

// Columns that the outputs [at, at + count) look at, as if the input went on behind its edges by one.
Interval wide_range(int64_t at, int64_t count, int64_t factor, int64_t mode) {
  const int64_t first = tap_anywhere(at, factor, mode).first;
  return {first, tap_anywhere(at + count - 1, factor, mode).second - first + 1};
}

// Where a row of the tile is kept on its way: two rows of the input in one piece, their sums, those of one phase, bytes.
struct Strips {
  int8_t *above, *below;
  int32_t *row, *sums;
  int8_t *bytes;
};

size_t strips_in(const Call &call, Strips *strips) {
  const Layer &l = call.layer;
  const Box &t = call.tile;
  const int64_t fx = l.get("factor", 1);
  const int64_t columns = wide_range(t.x, t.w, fx, l.get("mode")).count, pixels = ceil_div(t.w, fx);
  auto *at = static_cast<int8_t *>(call.scratch);
  size_t used = 0;
  auto take = [&](int64_t numbers, size_t size) {
    int8_t *p = at ? at + used : nullptr;
    used += size_t(round_up(numbers * int64_t(size), 64));
    return p;
  };
  strips->above = take(columns * t.n, 1), strips->below = take(columns * t.n, 1);
  strips->row = reinterpret_cast<int32_t *>(take(columns * t.n, 4));
  strips->sums = reinterpret_cast<int32_t *>(take(pixels * t.n, 4));
  strips->bytes = take(pixels * t.n, 1);
  return used;
}

size_t scratch_linear(const Call &call) {
  Strips strips;
  Call nowhere = call;
  nowhere.scratch = nullptr;
  return strips_in(nowhere, &strips);
}

// First down the columns, into a row of the input's width; then along that row. Outputs `factor` apart have the same
// weights, and their inputs lie side by side: each such phase is one loop over many pixels, however few their channels.
void resize_linear(const Call &call) {
  const Layer &l = call.layer;
  const Box &t = call.tile;
  const int64_t mode = l.get("mode"), fy = l.get("factor", 0), fx = l.get("factor", 1), n = t.n;
  const int32_t zp = int32_t(l.get("zp"));
  const Requant requant{int32_t(l.get("m")), int32_t(l.get("f")), int32_t(l.get("out_zp")), -128, 127};
  const Source &in = call.reads[0];
  const Interval xs = linear_range(t.x, t.w, fx, mode, l.in.w), wide = wide_range(t.x, t.w, fx, mode);
  const int64_t before = xs.first - wide.first, end = before + xs.count;
  Strips strips;
  strips_in(call, &strips);
  auto in_one_piece = [&](int64_t y, int8_t *strip) -> const int8_t * {
    const int8_t *x = in.at(y, xs.first, t.c);
    if (in.pixel == n || xs.count == 1) return x;
    copy_box(x, 0, in.pixel, strip, 0, n, 1, xs.count, n);
    return strip;
  };
  for (int64_t y = t.y; y < t.y + t.h; ++y) {
    const Tap ty = tap(y, fy, mode, l.in.h);
    call.loops.blend_s8(xs.count * n, in_one_piece(ty.first, strips.above), int32_t(2 * fy) - ty.weight,
                        in_one_piece(ty.second, strips.below), ty.weight, zp, strips.row + before * n);
    for (int64_t x = before; x > 0; --x) std::memcpy(strips.row + (x - 1) * n, strips.row + x * n, size_t(n) * 4);
    for (int64_t x = end; x < wide.count; ++x)
      std::memcpy(strips.row + x * n, strips.row + (x - 1) * n, size_t(n) * 4);
    for (int64_t x = t.x; x < t.x + std::min(fx, t.w); ++x) {
      const int64_t pixels = ceil_div(t.x + t.w - x, fx);
      const Tap tx = tap_anywhere(x, fx, mode);
      const int32_t *row = strips.row + (tx.first - wide.first) * n;
      call.loops.blend_s32(pixels * n, row, int32_t(2 * fx) - tx.weight, row + n, tx.weight, strips.sums);
      call.loops.requantize(requant, pixels * n, strips.sums, strips.bytes);
      copy_box(strips.bytes, 0, n, call.write.at(y, x, t.c), 0, fx * call.write.pixel, 1, pixels, n);
    }
  }
}

}  // namespace

const OpInfo resize_nearest_op = {1, check_factor, needs_nearest, no_scratch, resize_nearest, false};
const OpInfo resize_linear_op = {1, check_linear, needs_linear, scratch_linear, resize_linear, false};

}  // namespace axtool
