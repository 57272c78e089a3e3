// conv, depthwise, conv_transpose: which blocks and pixels a box needs, and the call into mac/.
#include <algorithm>

#include "../mac_task.h"
#include "../ops.h"

namespace axtool {
namespace {

constexpr int64_t kLanes = 16, kParamBytes = 4 * kLanes * 4, kTableBytes = 1025 * 2;

bool depthwise(const Layer &layer) { return layer.op == Op::depthwise; }

void check(const Layer &layer) {
  check_window(layer);
  check_int8(layer, "x_zp"), check_int8(layer, "out_zp"), check_limits(layer);
  want(layer.get("act") == 0 || layer.get("act") == 1, std::string(layer.name()) + ".act: want 0 or 1");
  const int64_t group = layer.get("group"), cin = layer.in.c, cout = layer.out.c;
  if (depthwise(layer)) want(group == cin, "depthwise: want one group for each input channel");
  want(group >= 1 && cin % group == 0 && cout % group == 0,
       std::string(layer.name()) + ": channels do not divide into " + std::to_string(group) + " groups");
}

int64_t block_bytes(const Layer &layer) {
  const int64_t taps = layer.get("kernel", 0) * layer.get("kernel", 1);
  if (depthwise(layer)) return taps * kLanes;
  return taps * ceil_div(layer.in.c / layer.get("group"), 4) * kLanes * 4;
}

// The block of weights and params that holds an output channel.
int64_t block_of(const Layer &layer, int64_t channel) {
  if (depthwise(layer)) return channel / kLanes;
  const int64_t coutg = layer.out.c / layer.get("group");
  return channel / coutg * ceil_div(coutg, kLanes) + channel % coutg / kLanes;
}

// Input positions iy with out[iy * stride - pad + k * dilation] in [at, at + count).
Interval landing(const Window &w, int64_t at, int64_t count, int64_t size) {
  const int64_t first = std::max<int64_t>(ceil_div(at + w.pad - (w.kernel - 1) * w.dilation, w.stride), 0);
  const int64_t end = std::min(floor_div(at + count - 1 + w.pad, w.stride) + 1, size);
  return {first, end - first};
}

void needs(const Layer &layer, const Box &tile, int64_t, Box *of) {
  const int64_t last = tile.c + tile.n - 1;
  int64_t channel, end, inside = tile.c;
  if (depthwise(layer)) {
    const int64_t multiplier = layer.out.c / layer.in.c;
    channel = tile.c / multiplier, end = last / multiplier + 1;
  } else {
    const int64_t cing = layer.in.c / layer.get("group"), coutg = layer.out.c / layer.get("group");
    channel = tile.c / coutg * cing, end = (last / coutg + 1) * cing, inside = tile.c % coutg;
  }
  want(inside % kLanes == 0, "the tile begins inside a block of 16 channels");
  const auto inputs = layer.op == Op::conv_transpose ? landing : looked_at;
  const Interval y = inputs(window_of(layer, 0), tile.y, tile.h, layer.in.h);
  const Interval x = inputs(window_of(layer, 1), tile.x, tile.w, layer.in.w);
  of[0] = {y.first, x.first, channel, y.count, x.count, end - channel};
  const int64_t block = block_of(layer, tile.c), blocks = block_of(layer, last) - block + 1;
  of[1] = flat(block * block_bytes(layer), blocks * block_bytes(layer));
  of[2] = flat(block * kParamBytes, blocks * kParamBytes);
  of[3] = flat(0, kTableBytes);
}

size_t scratch(const Call &call) { return mac_scratch_bytes(mac_task(call), call.isa); }
void run(const Call &call) { run_mac(mac_task(call), call.isa, call.scratch); }

}  // namespace

MacTask mac_task(const Call &call) {
  const Layer &l = call.layer;
  const Box &tile = call.tile;
  const Window y = window_of(l, 0), x = window_of(l, 1);
  const int64_t block = block_of(l, tile.c);
  const Source &in = call.reads[0];
  MacTask t{};
  t.kind = MacKind(int(l.op));
  t.in_h = int(l.in.h), t.in_w = int(l.in.w), t.in_c = int(l.in.c);
  t.x = in.at(in.box.y, in.box.x, 0), t.x_row = in.row, t.x_pixel = in.pixel;
  const Box inside = intersection(in.box, whole(l.in));  // a view may hold more than the tensor
  t.view_y = int(in.box.y), t.view_x = int(in.box.x), t.view_h = int(inside.h), t.view_w = int(inside.w);
  t.kh = int(y.kernel), t.kw = int(x.kernel), t.sh = int(y.stride), t.sw = int(x.stride);
  t.dh = int(y.dilation), t.dw = int(x.dilation), t.pt = int(y.pad), t.pl = int(x.pad);
  t.group = int(l.get("group"));
  t.x_zp = int(l.get("x_zp")), t.out_zp = int(l.get("out_zp")), t.lo = int(l.get("lo")), t.hi = int(l.get("hi"));
  t.act = int(l.get("act")), t.out_c = int(l.out.c);
  t.w = call.reads[1].flat(block * block_bytes(l));
  t.params = reinterpret_cast<const int32_t *>(call.reads[2].flat(block * kParamBytes));
  t.table = t.act ? reinterpret_cast<const int16_t *>(call.reads[3].flat(0)) : nullptr;
  t.oy = int(tile.y), t.ox = int(tile.x), t.oc = int(tile.c);
  t.oh = int(tile.h), t.ow = int(tile.w), t.on = int(tile.n);
  t.y = call.write.at(tile.y, tile.x, tile.c), t.y_row = call.write.row, t.y_pixel = call.write.pixel;
  t.frozen = call.frozen, t.values = call.values;
  return t;
}

const OpInfo conv_op = {3, check, needs, scratch, run, false};
const OpInfo depthwise_op = conv_op;
const OpInfo conv_transpose_op = conv_op;

}  // namespace axtool
