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
  int64_t first, second;  // input positions, clamped to the edges
  int32_t weight;         // of the second, over 2 * factor
};

Tap tap(int64_t at, int64_t factor, int64_t mode, int64_t size) {
  const int64_t numerator = mode == 0 ? 2 * at + 1 - factor : 2 * at;
  const int64_t first = floor_div(numerator, 2 * factor);
  return {clamp(first, 0, size - 1), clamp(first + 1, 0, size - 1), int32_t(numerator - first * 2 * factor)};
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

size_t scratch_linear(const Call &call) {
  Box of[kMaxReads];
  needs_linear(call.layer, call.tile, 0, of);
  return size_t((of[0].w + 1) * call.tile.n) * sizeof(int32_t);
}

// First down the columns, into a row of the input's width; then along that row.
void resize_linear(const Call &call) {
  const Layer &l = call.layer;
  const Box &t = call.tile;
  const int64_t mode = l.get("mode"), fy = l.get("factor", 0), fx = l.get("factor", 1);
  const int32_t zp = int32_t(l.get("zp"));
  const Requant requant{int32_t(l.get("m")), int32_t(l.get("f")), int32_t(l.get("out_zp")), -128, 127};
  const Source &in = call.reads[0];
  const Interval xs = linear_range(t.x, t.w, fx, mode, l.in.w);
  int32_t *row = static_cast<int32_t *>(call.scratch), *pixel = row + xs.count * t.n;
  for (int64_t y = t.y; y < t.y + t.h; ++y) {
    const Tap ty = tap(y, fy, mode, l.in.h);
    for (int64_t x = 0; x < xs.count; ++x)
      call.loops.blend_s8(t.n, in.at(ty.first, xs.first + x, t.c), int32_t(2 * fy) - ty.weight,
                          in.at(ty.second, xs.first + x, t.c), ty.weight, zp, row + x * t.n);
    for (int64_t x = t.x; x < t.x + t.w; ++x) {
      const Tap tx = tap(x, fx, mode, l.in.w);
      call.loops.blend_s32(t.n, row + (tx.first - xs.first) * t.n, int32_t(2 * fx) - tx.weight,
                           row + (tx.second - xs.first) * t.n, tx.weight, pixel);
      call.loops.requantize(requant, t.n, pixel, call.write.at(y, x, t.c));
    }
  }
}

}  // namespace

const OpInfo resize_nearest_op = {1, check_factor, needs_nearest, no_scratch, resize_nearest, false};
const OpInfo resize_linear_op = {1, check_linear, needs_linear, scratch_linear, resize_linear, false};

}  // namespace axtool
