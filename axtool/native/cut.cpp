// A step -> pieces of its tile for the threads.
#include <algorithm>

#include "mac_task.h"
#include "schedule.h"

namespace axtool {

constexpr int64_t kPieceBytes = 16384;  // less is not worth waking another core for

constexpr int64_t kOwnWeights = 1 << 18;  // bytes: half of a usual second cache

static bool is_row(Op op) {
  return op == Op::softmax || op == Op::layer_norm || op == Op::fx_softmax || op == Op::fx_layer_norm;
}

static void cut_grid(Step &step, int64_t rows, int64_t columns, int64_t channels) {
  const Box &t = step.tile;
  for (int64_t c = 0; c < t.n; c += channels)
    for (int64_t y = 0; y < t.h; y += rows)
      for (int64_t x = 0; x < t.w; x += columns)
        step.pieces.push_back({t.y + y, t.x + x, t.c + c, std::min(rows, t.h - y), std::min(columns, t.w - x),
                               std::min(channels, t.n - c)});
}

static bool is_mac(const Step &step) {
  return step.layer &&
         (step.layer->op == Op::conv || step.layer->op == Op::depthwise || step.layer->op == Op::conv_transpose);
}

// Bytes that the step reads or writes, whichever is more.
static int64_t traffic(const Step &step) {
  int64_t bytes = step.tile.h * step.tile.w * step.tile.n;
  if (!step.layer) return bytes;
  Box needs[kMaxReads];
  op_info(step.layer->op).needs(*step.layer, step.tile, step.part, needs);
  return empty(needs[0]) ? bytes : std::max(bytes, needs[0].h * needs[0].w * needs[0].n);
}

// How much longer the largest of `threads` shares of `count` is than an equal one would be.
static double unevenness(int64_t count, int threads) {
  return double(ceil_div(count, threads) * threads) / double(count);
}

// As mac/ proposes; but by channels where rows would leave a thread waiting (7 rows for 2), or where the weights are so
// many that each thread should read only its own half of them.
static void cut_mac(Step &step, int threads, Isa isa) {
  int8_t *const nowhere[2] = {};
  const MacTask task = mac_task(call_of(step, step.tile, nowhere, isa, nullptr));
  const MacPieces pieces = mac_pieces(task, isa, threads);
  const bool whole_blocks = task.kind == MacKind::depthwise || task.group == 1 || task.out_c / task.group % 16 == 0;
  const int64_t blocks = ceil_div(step.tile.n, 16);
  const double rows = unevenness(ceil_div(step.tile.h, mac_row_unit(task)), threads);
  const double channels = unevenness(blocks, threads);
  const bool heavy = task.group == 1 && step.reads[1].box.n > kOwnWeights;
  if (whole_blocks && pieces.channels == task.on && channels < (heavy ? rows + 0.01 : rows))
    return cut_grid(step, step.tile.h, step.tile.w, ceil_div(blocks, threads) * 16);
  cut_grid(step, pieces.rows, step.tile.w, pieces.channels);
}

// The same choice for wide_conv and wide_depthwise: rows, or whole blocks of 16 channels where they share better.
static void cut_wide_mac(Step &step, int threads) {
  constexpr double kWorthAThread = 400000;  // products
  const Box &t = step.tile;
  const Layer &l = *step.layer;
  const bool depthwise = l.op == Op::wide_depthwise;
  const int64_t x_bytes = l.get("x_bytes"), out_bytes = l.get("out_bytes"), group = l.get("group");
  const double taps = double(l.get("kernel", 0)) * double(l.get("kernel", 1));
  const double inputs = depthwise ? 1 : double(l.in.c / x_bytes / group);
  if (taps * inputs * double(t.h * t.w * (t.n / out_bytes)) < kWorthAThread) return cut_grid(step, t.h, t.w, t.n);
  const bool whole_blocks = depthwise || group == 1 || l.out.c / out_bytes / group % 16 == 0;
  const int64_t blocks = ceil_div(t.n / out_bytes, 16);
  if (whole_blocks && unevenness(blocks, threads) < unevenness(t.h, threads))
    return cut_grid(step, t.h, t.w, ceil_div(blocks, threads) * 16 * out_bytes);
  cut_grid(step, ceil_div(t.h, threads), t.w, t.n);
}

static bool is_product(Op op) {
  return op == Op::matmul || op == Op::attention || op == Op::fp16_matmul || op == Op::fp16_attention;
}

// Products of two activations: rows, each of them a whole one; b, keys and values are arranged for each piece anew.
static void cut_products(Step &step, int threads) {
  constexpr double kWorthAThread = 200000;  // products
  const Box &t = step.tile;
  const Layer &l = *step.layer;
  const bool attention = l.op == Op::attention || l.op == Op::fp16_attention;
  const double depth = attention ? double(l.get("keys")) * double(l.in.c + l.out.c) / double(l.out.c) : double(l.in.c);
  if (depth * double(t.h * t.w * t.n) < kWorthAThread * threads) return cut_grid(step, t.h, t.w, t.n);
  if (t.h >= threads) return cut_grid(step, ceil_div(t.h, threads), t.w, t.n);
  const int64_t pieces = t.w >= 64 * threads ? 2 * threads : threads;  // of long ones: see mac_pieces
  cut_grid(step, t.h, ceil_div(t.w, pieces), t.n);
}

// fp16_linear: whole blocks of 16 channels where they share as well as pixels do, so that a thread reads its own weights.
static void cut_linear(Step &step, int threads) {
  constexpr double kWorthAThread = 200000;  // products
  const Box &t = step.tile;
  const int64_t out_bytes = step.layer->get("out_bytes"), blocks = ceil_div(t.n / out_bytes, 16);
  const double products = double(t.h * t.w) * double(t.n / out_bytes) * double(step.layer->in.c / step.layer->get("x_bytes"));
  if (products < kWorthAThread) return cut_grid(step, t.h, t.w, t.n);
  const double pixels = unevenness(std::max(t.h, t.w), threads);
  if (unevenness(blocks, threads) <= pixels) return cut_grid(step, t.h, t.w, ceil_div(blocks, threads) * 16 * out_bytes);
  if (t.h >= t.w) return cut_grid(step, ceil_div(t.h, threads), t.w, t.n);
  cut_grid(step, t.h, ceil_div(t.w, threads), t.n);
}

void cut_step(Step &step, int threads, Isa isa) {
  const Box &t = step.tile;
  step.pieces.clear();
  if (step.staged || threads == 1) return cut_grid(step, t.h, t.w, t.n);
  if (step.layer && step.layer->op == Op::fp16_linear) return cut_linear(step, threads);
  if (is_mac(step)) return cut_mac(step, threads, isa);
  if (step.layer && (step.layer->op == Op::wide_conv || step.layer->op == Op::wide_depthwise))
    return cut_wide_mac(step, threads);
  if (step.layer && is_product(step.layer->op)) return cut_products(step, threads);
  if (step.layer && step.layer->op == Op::custom) {  // every piece would make all that it needs of the channels
    const int64_t pieces = step.layer->get("whole") ? 1 : std::min<int64_t>(threads, std::max(t.h, t.w));
    return t.h >= pieces ? cut_grid(step, ceil_div(t.h, pieces), t.w, t.n)
                         : cut_grid(step, t.h, ceil_div(t.w, pieces), t.n);
  }
  const int64_t count = std::clamp<int64_t>(traffic(step) / kPieceBytes, 1, 2 * threads);
  if (t.h >= count) return cut_grid(step, ceil_div(t.h, count), t.w, t.n);
  // of a row that is looked at as a whole the channels stay together
  const bool rows = step.layer && (is_row(step.layer->op));
  // multiples of 64 bytes from the beginning of the tile never cut a number
  if (!rows && t.n >= 64 * count) return cut_grid(step, t.h, t.w, round_up(ceil_div(t.n, count), 64));
  cut_grid(step, t.h, ceil_div(t.w, std::min(count, t.w)), t.n);
}

}  // namespace axtool
