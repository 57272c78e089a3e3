#include "check.h"

#include "ops.h"

namespace axtool {

constexpr double kMaxWork = double(int64_t(1) << 46);  // operations of one command: hours, but not forever

void check_layer(const Layer &layer) { op_info(layer.op).check(layer); }

void check_view(const View &v, const Sizes &sizes) {
  want(elements_disjoint(v), "a view of ", v.box, " overlaps itself: strides ", v.row, ", ", v.pixel);
  // end() <= 2^23 * 2^38 * 2 + 2^39 for what decode_command lets through
  const int64_t size = sizes.bytes[v.memory];
  want(v.end() <= size, "bytes ", v.offset, "..", v.end(), " leave ", v.memory ? "ocm" : "ext", " of ", size, " bytes");
}

// Does some number of `bytes` in this box begin elsewhere than at a multiple of its size?
static bool splits_numbers(const View &v, const Box &box, int64_t bytes) {
  return v.at(box.y, box.x, box.c) % bytes || (box.h > 1 && v.row % bytes) || (box.w > 1 && v.pixel % bytes);
}

std::string lacking(const Layer &layer, const Box &tile, int64_t part, const std::vector<View> &reads) {
  Box needs[kMaxReads];
  const OpInfo &op = op_info(layer.op);
  op.needs(layer, tile, part, needs);
  for (size_t i = 0; i < reads.size(); ++i) {
    const View &v = reads[i];
    if (!empty(needs[i]) && !contains(v.box, needs[i]))
      return "operand " + std::to_string(i) + " needs " + to_string(needs[i]) + ", the view has " + to_string(v.box);
    const int bytes = number_bytes(layer, int(i));
    const bool tensor = int(i) < tensor_reads(layer);
    if (bytes > 1 && !empty(needs[i]) && (splits_numbers(v, needs[i], bytes) || (tensor && v.box.c % bytes)))
      return "operand " + std::to_string(i) + " begins inside a number";
  }
  return "";
}

static void check_compute(const Command &c, const Layer &layer) {
  const char *name = layer.name();
  want(contains(whole(layer.out), c.tile), name, ": the box ", c.tile, " is not in the output");
  const int64_t reads = reads_of(layer), have = int64_t(c.reads.size()), writes = int64_t(c.writes.size());
  want(have == reads && writes == 1, name, ": ", have, " reads and ", writes, " writes, want ", reads, " and 1");
  want(layer.op == Op::concat || c.part == 0, name, ": part ", c.part, " does not exist");
  const Box box = written(layer, c.tile, c.part);
  const std::string why = lacking(layer, c.tile, c.part, c.reads);
  want(why.empty(), name, ": ", why);
  want(empty(box) || contains(c.writes[0].box, box), name, ": the view of the output ", c.writes[0].box, " lacks ", box);
  const int bytes = number_bytes(layer, -1);
  want(empty(box) || (!splits_numbers(c.writes[0], box, bytes) && c.writes[0].box.c % bytes == 0), name,
       ": the output begins inside a number");
  double work = double(c.tile.h) * double(c.tile.w) * double(c.tile.n);
  if (layer.op <= Op::conv_transpose || layer.op == Op::avg_pool || layer.op == Op::max_pool ||
      layer.op == Op::wide_conv || layer.op == Op::wide_depthwise || layer.op == Op::wide_avg_pool)
    work *= double(layer.get("kernel", 0)) * double(layer.get("kernel", 1));
  if (layer.op == Op::conv || layer.op == Op::conv_transpose || layer.op == Op::wide_conv)
    work *= double(layer.in.c) / double(layer.get("group"));
  if (layer.op == Op::matmul || layer.op == Op::fp16_matmul) work *= double(layer.in.c);
  if (layer.op == Op::attention || layer.op == Op::fp16_attention)
    work *= double(layer.get("keys")) * double(layer.in.c + layer.out.c) / double(layer.out.c);
  if (layer.op == Op::fp16_linear) work *= double(layer.in.c);
  want(work < kMaxWork, name, ": more than 2^46 operations");
}

static void check_copy(const Command &c) {
  const int64_t reads = int64_t(c.reads.size()), writes = int64_t(c.writes.size());
  want(reads == 1 && writes == 1, "a copy with ", reads, " reads and ", writes, " writes, want 1 and 1");
  want(same_extent(c.reads[0].box, c.writes[0].box), "a copy of ", c.reads[0].box, " does not fit ", c.writes[0].box);
}

void check_command(const Command &c, const std::vector<Layer> &layers, const Sizes &sizes) {
  const int64_t count = int64_t(layers.size());
  want(c.layer >= 0 && c.layer < count, "layer ", c.layer, " does not exist; there are ", count);
  for (const View &v : c.reads) check_view(v, sizes);
  for (const View &v : c.writes) check_view(v, sizes);
  if (c.kind == Kind::compute)
    check_compute(c, layers[size_t(c.layer)]);
  else
    check_copy(c);
}

}  // namespace axtool
