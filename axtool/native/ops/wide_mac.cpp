// wide_conv, wide_depthwise: the checks and geometry of conv and depthwise on numbers, and the call into wide/.
#include "../wide/wide.h"

#include <algorithm>

#include "../ops.h"

namespace axtool {
namespace {

constexpr int64_t kLanes = 16, kParamBytes = 4 * kLanes * 4, kTableBytes = 1025 * 2;
constexpr int64_t kMostProducts = int64_t(1) << 24;  // of one sum: far from 2^51, where the scaling would end
constexpr int64_t kMostBand = int64_t(1) << 28;      // bytes of the input of one row of outputs

bool depthwise(const Layer &layer) { return layer.op == Op::wide_depthwise; }

// Channels in numbers.
int64_t inputs(const Layer &layer) { return layer.in.c / layer.get("x_bytes"); }
int64_t outputs(const Layer &layer) { return layer.out.c / layer.get("out_bytes"); }

// What a window spans along an axis, for `count` outputs.
int64_t span(const Window &w, int64_t count) { return (count - 1) * w.stride + (w.kernel - 1) * w.dilation + 1; }

void check(const Layer &layer) {
  const std::string name = layer.name();
  check_window(layer);
  check_bytes(layer, {"x_bytes", "out_bytes"});
  check_zero_point(layer, "x_zp", "x_bytes"), check_zero_point(layer, "out_zp", "out_bytes"), check_wide_limits(layer);
  want(layer.get("act") == 0 || layer.get("act") == 1, name + ".act: want 0 or 1");
  want(layer.get("act") == 0 || layer.get("out_bytes") == 1, name + ".act: want 0, the output has two bytes");
  const int64_t group = layer.get("group"), cin = inputs(layer), cout = outputs(layer);
  if (depthwise(layer)) want(group == cin, "wide_depthwise: want one group for each input channel");
  want(group >= 1 && cin % group == 0 && cout % group == 0,
       name + ": channels do not divide into " + std::to_string(group) + " groups");
  const Window y = window_of(layer, 0), x = window_of(layer, 1);
  want(y.kernel <= kMostProducts && x.kernel <= kMostProducts && y.kernel * x.kernel <= kMostProducts &&
           y.kernel * x.kernel * (cin / group) <= kMostProducts,
       name + ": more than 2^24 products in a sum");
  const double band = double(span(y, 1)) * double(span(x, layer.out.w)) * 2.0 *
                      double(depthwise(layer) ? round_up(cout, kLanes) : round_up(cin / group, 4));
  want(band <= double(kMostBand), name + ": a row of outputs looks at more than 2^28 bytes");
}

int64_t block_bytes(const Layer &layer) {
  const int64_t taps = layer.get("kernel", 0) * layer.get("kernel", 1);
  return depthwise(layer) ? taps * kLanes : taps * ceil_div(inputs(layer) / layer.get("group"), 4) * kLanes * 4;
}

// The block of weights and params that holds an output channel.
int64_t block_of(const Layer &layer, int64_t channel) {
  if (depthwise(layer)) return channel / kLanes;
  const int64_t coutg = outputs(layer) / layer.get("group");
  return channel / coutg * ceil_div(coutg, kLanes) + channel % coutg / kLanes;
}

void needs(const Layer &layer, const Box &bytes, int64_t, Box *of) {
  const Box tile = in_numbers(layer, bytes);
  const int64_t last = tile.c + tile.n - 1, cin = inputs(layer), cout = outputs(layer);
  const int64_t share = cout / layer.get("group");  // of outputs that read the same inputs
  const int64_t each = depthwise(layer) ? 1 : cin / layer.get("group");
  const int64_t inside = depthwise(layer) ? tile.c : tile.c % share;
  want(inside % kLanes == 0, "the tile begins inside a block of 16 channels");
  const Interval y = looked_at(window_of(layer, 0), tile.y, tile.h, layer.in.h);
  const Interval x = looked_at(window_of(layer, 1), tile.x, tile.w, layer.in.w);
  const int64_t channel = tile.c / share * each, end = (last / share + 1) * each;
  of[0] = in_bytes({y.first, x.first, channel, y.count, x.count, end - channel}, layer.get("x_bytes"));
  const int64_t block = block_of(layer, tile.c), blocks = block_of(layer, last) - block + 1;
  of[1] = flat(block * block_bytes(layer), blocks * block_bytes(layer));
  of[2] = flat(block * kParamBytes, blocks * kParamBytes);
  of[3] = flat(0, kTableBytes);
}

WideTask task_of(const Call &call) {
  const Layer &l = call.layer;
  const Box tile = in_numbers(l, call.tile);
  const Window y = window_of(l, 0), x = window_of(l, 1);
  const int64_t block = block_of(l, tile.c);
  const Source &in = call.reads[0];
  WideTask task{{}, int(l.get("x_bytes")), int(l.get("out_bytes"))};
  MacTask &t = task.mac;
  t.kind = depthwise(l) ? MacKind::depthwise : MacKind::conv;
  t.in_h = int(l.in.h), t.in_w = int(l.in.w), t.in_c = int(inputs(l)), t.out_c = int(outputs(l));
  t.x = in.at(in.box.y, in.box.x, 0), t.x_row = in.row, t.x_pixel = in.pixel;
  const Box inside = intersection(in.box, whole(l.in));  // a view may hold more than the tensor
  t.view_y = int(in.box.y), t.view_x = int(in.box.x), t.view_h = int(inside.h), t.view_w = int(inside.w);
  t.kh = int(y.kernel), t.kw = int(x.kernel), t.sh = int(y.stride), t.sw = int(x.stride);
  t.dh = int(y.dilation), t.dw = int(x.dilation), t.pt = int(y.pad), t.pl = int(x.pad);
  t.group = int(l.get("group"));
  t.x_zp = int(l.get("x_zp")), t.out_zp = int(l.get("out_zp")), t.lo = int(l.get("lo")), t.hi = int(l.get("hi"));
  t.act = int(l.get("act"));
  t.w = call.reads[1].flat(block * block_bytes(l));
  t.params = reinterpret_cast<const int32_t *>(call.reads[2].flat(block * kParamBytes));
  t.table = t.act ? reinterpret_cast<const int16_t *>(call.reads[3].flat(0)) : nullptr;
  t.oy = int(tile.y), t.ox = int(tile.x), t.oc = int(tile.c);
  t.oh = int(tile.h), t.ow = int(tile.w), t.on = int(tile.n);
  t.y = call.write.at(tile.y, tile.x, call.tile.c), t.y_row = call.write.row, t.y_pixel = call.write.pixel;
  return task;
}

size_t scratch(const Call &call) { return wide_for(call.isa).mac_scratch(task_of(call)); }
void run(const Call &call) { wide_for(call.isa).mac(task_of(call), call.scratch); }

}  // namespace

const OpInfo wide_conv_op = {3, check, needs, scratch, run, false};
const OpInfo wide_depthwise_op = wide_conv_op;

}  // namespace axtool
