// custom: a user's function, called with boxes in one piece.
#include <stdexcept>

#include "../ops.h"

namespace axtool {
namespace {

constexpr int64_t kMostInputs = 3;

int64_t inputs_of(const Layer &layer) { return int64_t(layer.values.size() - 3) / 3; }
Dims dims_of(const Layer &layer, int64_t read) {
  return {layer.get("boxes", int(3 * read)), layer.get("boxes", int(3 * read + 1)), layer.get("boxes", int(3 * read + 2))};
}
bool is_whole(const Layer &layer) { return layer.get("whole") != 0; }

void check_custom(const Layer &layer) {
  const int64_t inputs = inputs_of(layer), whole = layer.get("whole");
  want(layer.values.size() % 3 == 0 && inputs >= 1 && inputs <= kMostInputs, "custom: boxes of 1 to 3 inputs, not of ",
       layer.values.size() - 3, " integers");
  want(whole == 0 || whole == 1, "custom.whole: want 0 or 1");
  want(layer.get("count") >= 1, "custom.count: want at least 1");
  for (int64_t i = 0; i < inputs; ++i) {
    const Dims d = dims_of(layer, i);
    for (int64_t extent : {d.h, d.w, d.c}) want(extent >= 1 && extent < kMaxExtent, "custom.boxes: ", extent, " is no size");
    want(whole || ((d.h == 1 || d.h == layer.out.h) && (d.w == 1 || d.w == layer.out.w)),
         "custom: an input has other pixels than the output");
  }
  const Dims first = dims_of(layer, 0);
  want(first.h == layer.in.h && first.w == layer.in.w && first.c == layer.in.c, "custom: boxes are not those of the input");
}

void needs_custom(const Layer &layer, const Box &tile, int64_t, Box *of) {
  const int64_t inputs = inputs_of(layer);
  for (int64_t i = 0; i < inputs; ++i) {
    const Dims d = dims_of(layer, i);
    of[i] = is_whole(layer) ? whole(d)
                            : Box{d.h == 1 ? 0 : tile.y, d.w == 1 ? 0 : tile.x, 0, d.h == 1 ? 1 : tile.h,
                                  d.w == 1 ? 1 : tile.w, d.c};
  }
  of[inputs] = {0, 0, 0, 1, 1, layer.get("count")};
}

int64_t bytes_of(const Box &box) { return round_up(box.h * box.w * box.n, 64); }

// What the function makes: all channels of the pixels, or all of the output.
Box made_box(const Layer &layer, const Box &tile) {
  return is_whole(layer) ? whole(layer.out) : Box{tile.y, tile.x, 0, tile.h, tile.w, layer.out.c};
}

size_t scratch_custom(const Call &call) {
  Box needs[kMaxReads];
  needs_custom(call.layer, call.tile, 0, needs);
  int64_t bytes = bytes_of(made_box(call.layer, call.tile));
  for (int64_t i = 0; i <= inputs_of(call.layer); ++i) bytes += bytes_of(needs[i]);
  return size_t(bytes);
}

void custom(const Call &call) {
  const Layer &l = call.layer;
  const int64_t inputs = inputs_of(l);
  Box needs[kMaxReads];
  needs_custom(l, call.tile, 0, needs);
  auto *at = static_cast<int8_t *>(call.scratch);
  const int8_t *boxes[kMaxReads];
  int64_t dims[3 * (kMostInputs + 1)];
  for (int64_t i = 0; i <= inputs; ++i) {
    const Box &box = needs[i];
    copy_box(call.reads[i].at(box.y, box.x, box.c), call.reads[i].row, call.reads[i].pixel, at, box.w * box.n, box.n,
             box.h, box.w, box.n);
    boxes[i] = at;
    at += bytes_of(box);
    dims[3 * i] = box.h, dims[3 * i + 1] = box.w, dims[3 * i + 2] = box.n;
  }
  const Box made = made_box(l, call.tile);
  dims[3 * inputs] = made.h, dims[3 * inputs + 1] = made.w, dims[3 * inputs + 2] = made.n;
  const int32_t failed =
      l.function(boxes, inputs, dims, reinterpret_cast<const uint8_t *>(boxes[inputs]), l.get("count"), at);
  if (failed) throw Refusal("the function of a custom op returned " + std::to_string(failed));
  const Box &t = call.tile;
  const Source from{at, made, made.w * made.n, made.n};
  copy_box(from, call.write, t, t);
}

}  // namespace

const OpInfo custom_op = {0, check_custom, needs_custom, scratch_custom, custom, false};

}  // namespace axtool
