// slice, pad, transpose, reshape, depth_to_space, space_to_depth: the same numbers in other places.
#include <algorithm>
#include <cstring>

#include "../ops.h"

namespace axtool {
namespace {

size_t no_scratch(const Call &) { return 0; }

void check_same_count(const Layer &layer) {
  want(layer.in.h * layer.in.w * layer.in.c == layer.out.h * layer.out.w * layer.out.c,
       std::string(layer.name()) + ": input and output have different counts of elements");
}

int64_t extent(const Dims &d, int axis) { return axis == 0 ? d.h : axis == 1 ? d.w : d.c; }
int64_t start(const Box &b, int axis) { return axis == 0 ? b.y : axis == 1 ? b.x : b.c; }
int64_t count(const Box &b, int axis) { return axis == 0 ? b.h : axis == 1 ? b.w : b.n; }

// ---- slice: out[i] = in[start + i * step] ----------------------------------------------------------------------------

int64_t sliced(const Layer &layer, int axis, int64_t at) {
  return layer.get("start", axis) + at * layer.get("step", axis);
}

void check_slice(const Layer &layer) {
  for (int axis = 0; axis < 3; ++axis) {
    const int64_t size = extent(layer.in, axis);
    const int64_t first = sliced(layer, axis, 0), last = sliced(layer, axis, extent(layer.out, axis) - 1);
    want(layer.get("step", axis) != 0, "slice.step: want anything but 0");
    want(std::min(first, last) >= 0 && std::max(first, last) < size, "slice leaves its input");
  }
}

void needs_slice(const Layer &layer, const Box &t, int64_t, Box *of) {
  int64_t at[3], size[3];
  for (int axis = 0; axis < 3; ++axis) {
    const int64_t first = sliced(layer, axis, start(t, axis));
    const int64_t last = sliced(layer, axis, start(t, axis) + count(t, axis) - 1);
    at[axis] = std::min(first, last), size[axis] = std::max(first, last) - at[axis] + 1;
  }
  of[0] = {at[0], at[1], at[2], size[0], size[1], size[2]};
}

void slice(const Call &call) {
  const Layer &l = call.layer;
  const Box &t = call.tile;
  const Source &in = call.reads[0];
  const int64_t first_x = sliced(l, 1, t.x), first_c = sliced(l, 2, t.c);
  const int64_t step_x = l.get("step", 1) * in.pixel, step_c = l.get("step", 2);
  for (int64_t y = t.y; y < t.y + t.h; ++y) {
    const int8_t *x = in.at(sliced(l, 0, y), first_x, first_c);
    int8_t *out = call.write.at(y, t.x, t.c);
    if (step_c == 1 || t.n == 1) {
      copy_box(x, 0, step_x, out, 0, call.write.pixel, 1, t.w, t.n);
      continue;
    }
    for (int64_t i = 0; i < t.w; ++i)
      for (int64_t c = 0; c < t.n; ++c) out[i * call.write.pixel + c] = x[i * step_x + c * step_c];
  }
}

// ---- pad -------------------------------------------------------------------------------------------------------------

// The input position of an output position on an axis; -1 where the pad value stands.
int64_t unpadded(const Layer &layer, int axis, int64_t at) {
  const int64_t size = extent(layer.in, axis), i = at - layer.get("before", axis);
  switch (layer.get("mode")) {
    case 0: return i >= 0 && i < size ? i : -1;
    case 1: {  // mirrored at the edges, which are not repeated
      const int64_t period = std::max<int64_t>(2 * (size - 1), 1), r = i - floor_div(i, period) * period;
      return r < size ? r : period - r;
    }
    default: return clamp(i, 0, size - 1);
  }
}

void check_pad(const Layer &layer) {
  want(layer.get("mode") >= 0 && layer.get("mode") <= 2, "pad.mode: want 0, 1 or 2");
  check_int8(layer, "value");
}

void needs_pad(const Layer &layer, const Box &t, int64_t, Box *of) {
  int64_t at[3], size[3];
  for (int axis = 0; axis < 3; ++axis) {
    int64_t low = INT64_MAX, high = -1;
    for (int64_t i = start(t, axis); i < start(t, axis) + count(t, axis); ++i) {
      const int64_t from = unpadded(layer, axis, i);
      if (from >= 0) low = std::min(low, from), high = std::max(high, from);
    }
    at[axis] = high < 0 ? 0 : low, size[axis] = high < 0 ? 0 : high - low + 1;
  }
  of[0] = {at[0], at[1], at[2], size[0], size[1], size[2]};
}

// One pixel, each channel looked up.
void pad_pixel(const Call &call, int64_t y, int64_t x, int64_t c, int64_t end) {
  const int64_t from_y = unpadded(call.layer, 0, y), from_x = unpadded(call.layer, 1, x);
  int8_t *out = call.write.at(y, x, c);
  const int8_t value = int8_t(call.layer.get("value"));
  if (from_y < 0 || from_x < 0) return void(std::memset(out, value, size_t(end - c)));
  for (; c < end; ++c, ++out) {
    const int64_t from = unpadded(call.layer, 2, c);
    *out = from < 0 ? value : *call.reads[0].at(from_y, from_x, from);
  }
}

// The box that needs no looking up is copied; what is around it, pixel by pixel.
void pad(const Call &call) {
  const Layer &l = call.layer;
  const Box &t = call.tile;
  const int64_t by = l.get("before", 0), bx = l.get("before", 1), bc = l.get("before", 2);
  const Box inside = intersection(t, {by, bx, bc, l.in.h, l.in.w, l.in.c});
  const bool some = !empty(inside);
  if (some) copy_box(call.reads[0], call.write, {inside.y - by, inside.x - bx, inside.c - bc, 0, 0, 0}, inside);
  for (int64_t y = t.y; y < t.y + t.h; ++y)
    for (int64_t x = t.x; x < t.x + t.w; ++x) {
      const bool copied = some && y >= inside.y && y < inside.y + inside.h && x >= inside.x && x < inside.x + inside.w;
      if (!copied) {
        pad_pixel(call, y, x, t.c, t.c + t.n);
        continue;
      }
      if (inside.n == t.n && x == inside.x) x += inside.w - 1;  // whole pixels: to the end of the copied row
      else {
        pad_pixel(call, y, x, t.c, inside.c);
        pad_pixel(call, y, x, inside.c + inside.n, t.c + t.n);
      }
    }
}

// ---- transpose: output axis k is input axis perm[k] ------------------------------------------------------------------

void check_transpose(const Layer &layer) {
  int seen = 0;
  for (int k = 0; k < 3; ++k) {
    const int64_t axis = layer.get("perm", k);
    want(axis >= 0 && axis <= 2, "transpose.perm: want 0, 1 and 2");
    seen |= 1 << axis;
    want(extent(layer.in, int(axis)) == extent(layer.out, k), "transpose: dims of input and output do not match");
  }
  want(seen == 7, "transpose.perm: want 0, 1 and 2");
}

void needs_transpose(const Layer &layer, const Box &t, int64_t, Box *of) {
  int64_t at[3], size[3];
  for (int k = 0; k < 3; ++k) at[layer.get("perm", k)] = start(t, k), size[layer.get("perm", k)] = count(t, k);
  of[0] = {at[0], at[1], at[2], size[0], size[1], size[2]};
}

void transpose(const Call &call) {
  const Box &t = call.tile;
  const Source &in = call.reads[0];
  Box from[kMaxReads];
  needs_transpose(call.layer, t, 0, from);
  const int8_t *x = in.at(from[0].y, from[0].x, from[0].c);
  const int64_t strides[] = {in.row, in.pixel, 1};
  const int64_t sy = strides[call.layer.get("perm", 0)], sx = strides[call.layer.get("perm", 1)],
                sc = strides[call.layer.get("perm", 2)];
  int8_t *out = call.write.at(t.y, t.x, t.c);
  if (sc == 1) return copy_box(x, sy, sx, out, call.write.row, call.write.pixel, t.h, t.w, t.n);
  constexpr int64_t kBlock = 32;  // squares of bytes that stay in the first cache on both sides
  for (int64_t y = 0; y < t.h; ++y)
    for (int64_t x0 = 0; x0 < t.w; x0 += kBlock)
      for (int64_t c0 = 0; c0 < t.n; c0 += kBlock)
        for (int64_t i = x0; i < std::min(x0 + kBlock, t.w); ++i)
          for (int64_t c = c0; c < std::min(c0 + kBlock, t.n); ++c)
            out[y * call.write.row + i * call.write.pixel + c] = x[y * sy + i * sx + c * sc];
}

// ---- reshape: the same elements in (h, w, c) order -------------------------------------------------------------------

// The box around runs of consecutive elements: a run that leaves its row may touch every column, and so on.
void needs_reshape(const Layer &layer, const Box &t, int64_t, Box *of) {
  const Dims &in = layer.in;
  const int64_t row = in.w * in.c;
  Box low{INT64_MAX, INT64_MAX, INT64_MAX, 0, 0, 0};  // h, w, n hold the largest positions here
  bool one_row = true, one_pixel = true;
  for (int64_t y = t.y; y < t.y + t.h; ++y)
    for (int64_t x = t.x; x < t.x + t.w; ++x) {
      const int64_t first = (y * layer.out.w + x) * layer.out.c + t.c, last = first + t.n - 1;
      one_row &= first / row == last / row, one_pixel &= first / in.c == last / in.c;
      for (int64_t at : {first, last}) {
        low.y = std::min(low.y, at / row), low.h = std::max(low.h, at / row);
        low.x = std::min(low.x, at / in.c % in.w), low.w = std::max(low.w, at / in.c % in.w);
        low.c = std::min(low.c, at % in.c), low.n = std::max(low.n, at % in.c);
      }
    }
  of[0] = {low.y, one_row ? low.x : 0, one_pixel ? low.c : 0, low.h - low.y + 1, one_row ? low.w - low.x + 1 : in.w,
           one_pixel ? low.n - low.c + 1 : in.c};
}

void reshape(const Call &call) {
  const Dims &in = call.layer.in, &out = call.layer.out;
  const Box &t = call.tile;
  for (int64_t y = t.y; y < t.y + t.h; ++y)
    for (int64_t x = t.x; x < t.x + t.w; ++x) {
      int64_t at = (y * out.w + x) * out.c + t.c;
      int8_t *to = call.write.at(y, x, t.c);
      for (int64_t left = t.n; left > 0;) {  // runs that stay inside a pixel of the input
        const int64_t c = at % in.c, run = std::min(left, in.c - c);
        std::memcpy(to, call.reads[0].at(at / (in.w * in.c), at / in.c % in.w, c), size_t(run));
        at += run, to += run, left -= run;
      }
    }
}

// ---- depth_to_space, space_to_depth ----------------------------------------------------------------------------------

void check_block(const Layer &layer, const Dims &wide, const Dims &deep) {
  const int64_t b = layer.get("block");
  want(b >= 1 && b < kMaxExtent, std::string(layer.name()) + ".block: want at least 1");
  want(wide.h == deep.h * b && wide.w == deep.w * b && deep.c % (b * b) == 0 && deep.c / (b * b) == wide.c,
       std::string(layer.name()) + ": dims of input and output do not match");
}

void check_depth_to_space(const Layer &layer) {
  want(layer.get("mode") == 0 || layer.get("mode") == 1, "depth_to_space.mode: want 0 or 1");
  check_block(layer, layer.out, layer.in);
}

// The input channel of output (y, x, c).
int64_t depth_channel(const Layer &layer, int64_t b, int64_t y, int64_t x, int64_t c) {
  const int64_t phase = y % b * b + x % b;
  return layer.get("mode") == 0 ? phase * layer.out.c + c : c * b * b + phase;
}

void needs_depth_to_space(const Layer &layer, const Box &t, int64_t, Box *of) {
  const int64_t b = layer.get("block"), y = t.y / b, x = t.x / b;
  int64_t low = INT64_MAX, high = 0;
  for (int64_t dy = 0; dy < std::min(t.h, b); ++dy)  // phases repeat
    for (int64_t dx = 0; dx < std::min(t.w, b); ++dx)
      for (int64_t c : {t.c, t.c + t.n - 1}) {
        const int64_t channel = depth_channel(layer, b, t.y + dy, t.x + dx, c);
        low = std::min(low, channel), high = std::max(high, channel);
      }
  of[0] = {y, x, low, (t.y + t.h - 1) / b - y + 1, (t.x + t.w - 1) / b - x + 1, high - low + 1};
}

void depth_to_space(const Call &call) {
  const Layer &l = call.layer;
  const Box &t = call.tile;
  const int64_t b = l.get("block"), step = l.get("mode") == 0 ? 1 : b * b;
  for (int64_t y = t.y; y < t.y + t.h; ++y)
    for (int64_t x = t.x; x < t.x + t.w; ++x) {
      const int8_t *in = call.reads[0].at(y / b, x / b, depth_channel(l, b, y, x, t.c));
      int8_t *out = call.write.at(y, x, t.c);
      if (step == 1) std::memcpy(out, in, size_t(t.n));
      else
        for (int64_t c = 0; c < t.n; ++c) out[c] = in[c * step];
    }
}

void check_space_to_depth(const Layer &layer) { check_block(layer, layer.in, layer.out); }

void needs_space_to_depth(const Layer &layer, const Box &t, int64_t, Box *of) {
  const int64_t b = layer.get("block"), channels = layer.in.c;
  const int64_t first = t.c / channels, last = (t.c + t.n - 1) / channels;  // phases
  int64_t y0 = b, y1 = 0, x0 = b, x1 = 0;
  for (int64_t phase = first; phase <= last; ++phase) {
    y0 = std::min(y0, phase / b), y1 = std::max(y1, phase / b);
    x0 = std::min(x0, phase % b), x1 = std::max(x1, phase % b);
  }
  const bool one = first == last;
  of[0] = {t.y * b + y0, t.x * b + x0, one ? t.c % channels : 0, (t.h - 1) * b + y1 - y0 + 1, (t.w - 1) * b + x1 - x0 + 1,
           one ? t.n : channels};
}

void space_to_depth(const Call &call) {
  const Box &t = call.tile;
  const int64_t b = call.layer.get("block"), channels = call.layer.in.c;
  for (int64_t y = t.y; y < t.y + t.h; ++y)
    for (int64_t x = t.x; x < t.x + t.w; ++x)
      for (int64_t c = t.c; c < t.c + t.n;) {  // the channels of one phase are a run
        const int64_t phase = c / channels, run = std::min((phase + 1) * channels, t.c + t.n) - c;
        std::memcpy(call.write.at(y, x, c), call.reads[0].at(y * b + phase / b, x * b + phase % b, c % channels),
                    size_t(run));
        c += run;
      }
}

}  // namespace

const OpInfo slice_op = {1, check_slice, needs_slice, no_scratch, slice, false};
const OpInfo pad_op = {1, check_pad, needs_pad, no_scratch, pad, false};
const OpInfo transpose_op = {1, check_transpose, needs_transpose, no_scratch, transpose, false};
const OpInfo reshape_op = {1, check_same_count, needs_reshape, no_scratch, reshape, false};
const OpInfo depth_to_space_op = {1, check_depth_to_space, needs_depth_to_space, no_scratch, depth_to_space, false};
const OpInfo space_to_depth_op = {1, check_space_to_depth, needs_space_to_depth, no_scratch, space_to_depth, false};

}  // namespace axtool
