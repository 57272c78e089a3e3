// fp16_linear: its checks and geometry, and the call into mixed/.
#include "../mixed/mixed.h"

#include "../ops.h"
#include "mixed_checks.h"

namespace axtool {
namespace {

constexpr int64_t kLanes = 16, kMostInputs = 1 << 20;

int64_t inputs(const Layer &layer) { return layer.in.c / layer.get("x_bytes"); }
int64_t weight_block(const Layer &layer) { return inputs(layer) * kLanes * 2; }
int64_t bias_block(const Layer &layer) { return layer.get("bias_rows") * kLanes * 4; }

void check(const Layer &layer) {
  check_size(layer, "x_bytes", {1, 2, 4}), check_size(layer, "out_bytes", {2, 4});
  check_whole_numbers(layer);
  check_zero_point(layer, "zp", "x_bytes");
  check_field(layer, "scale", 0, INT32_MAX), check_field(layer, "shift", kMostLeft, kMostRight);
  check_field(layer, "f_x", 0, 31), check_field(layer, "f", 0, 31), check_field(layer, "relu", 0, 1);
  const int64_t rows = layer.get("bias_rows");
  want(layer.in.h == layer.out.h && layer.in.w == layer.out.w, "fp16_linear: input and output have different pixels");
  want(rows == 1 || rows == layer.out.h * layer.out.w, "fp16_linear.bias_rows is ", rows, ": want 1 or one a pixel");
  want(inputs(layer) <= kMostInputs, "fp16_linear: a sum of ", inputs(layer), " products, the most is ", kMostInputs);
}

void needs(const Layer &layer, const Box &bytes, int64_t, Box *of) {
  const Box tile = in_numbers(layer, bytes);
  want(tile.c % kLanes == 0, "the tile begins inside a block of 16 channels");
  const int64_t block = tile.c / kLanes, blocks = ceil_div(tile.n, kLanes);
  of[0] = {tile.y, tile.x, 0, tile.h, tile.w, layer.in.c};
  of[1] = flat(block * weight_block(layer), blocks * weight_block(layer));
  of[2] = flat(block * bias_block(layer), blocks * bias_block(layer));
}

LinearTask task_of(const Call &call) {
  const Layer &l = call.layer;
  const Box tile = in_numbers(l, call.tile);
  const int64_t block = tile.c / kLanes;
  LinearTask t{};
  t.x = call.reads[0].at(tile.y, tile.x, 0), t.x_row = call.reads[0].row, t.x_pixel = call.reads[0].pixel;
  t.x_bytes = int(l.get("x_bytes")), t.k = int(inputs(l));
  t.from_int8 = {int32_t(l.get("zp")), int32_t(l.get("scale")), int(l.get("shift"))}, t.f_x = int(l.get("f_x"));
  t.w = call.reads[1].flat(block * weight_block(l)), t.bias = call.reads[2].flat(block * bias_block(l));
  t.bias_rows = l.get("bias_rows"), t.width = l.out.w;
  t.oy = int(tile.y), t.ox = int(tile.x), t.oh = int(tile.h), t.ow = int(tile.w), t.n = int(tile.n);
  t.relu = l.get("relu") != 0, t.f = int(l.get("f")), t.out_bytes = int(l.get("out_bytes"));
  t.y = call.write.at(tile.y, tile.x, call.tile.c), t.y_row = call.write.row, t.y_pixel = call.write.pixel;
  return t;
}

size_t scratch(const Call &call) { return mixed_for(call.isa).linear_scratch(task_of(call)); }
void run(const Call &call) { mixed_for(call.isa).linear(task_of(call), call.scratch); }

}  // namespace

const OpInfo fp16_linear_op = {3, check, needs, scratch, run, false};

}  // namespace axtool
