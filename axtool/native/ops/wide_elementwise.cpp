// wide_add, wide_mul, wide_requantize, wide_lut, wide_avg_pool: rows of numbers of one or two bytes.
#include "../wide/wide.h"

#include <algorithm>

#include "../ops.h"
#include "operands.h"
#include "pool_counts.h"

namespace axtool {
namespace {

int32_t number(const Layer &layer, const char *field) { return int32_t(layer.get(field)); }
size_t no_scratch(const Call &) { return 0; }

// ---- add, mul --------------------------------------------------------------------------------------------------------

Dims outputs(const Layer &layer) { return {layer.out.h, layer.out.w, layer.out.c / layer.get("out_bytes")}; }

void check_two(const Layer &layer) {
  check_bytes(layer, {"a_bytes", "b_bytes", "out_bytes"});
  check_zero_point(layer, "zp_a", "a_bytes"), check_zero_point(layer, "zp_b", "b_bytes");
  check_zero_point(layer, "out_zp", "out_bytes"), check_wide_limits(layer);
  const Dims a = operand_dims(layer, "a");
  want(a.h == layer.in.h && a.w == layer.in.w && a.c * layer.get("a_bytes") == layer.in.c,
       std::string(layer.name()) + ": a and the first input do not have the same dims");
  check_operands(layer, outputs(layer));
}

void needs_of_two(const Layer &layer, const Box &bytes, int64_t, Box *of) {
  const Box tile = in_numbers(layer, bytes);
  of[0] = in_bytes(operand_box(operand_dims(layer, "a"), tile), layer.get("a_bytes"));
  of[1] = in_bytes(operand_box(operand_dims(layer, "b"), tile), layer.get("b_bytes"));
}

// The numbers of an operand that meet pixel (y, x) of the tile.
WideSource source_of(const Call &call, int read, const Dims &dims, const Box &tile, int64_t y, int64_t x) {
  const int bytes = number_bytes(call.layer, read);
  const int64_t c = dims.c == 1 ? 0 : tile.c * bytes;
  return {call.reads[read].at(dims.h == 1 ? 0 : y, dims.w == 1 ? 0 : x, c), bytes, dims.c == 1 ? 0 : 1};
}

template <class Params>
using RowOfTwo = void (*)(const Params &, int64_t, const WideSource &, const WideSource &, const WideSink &);

template <class Params>
void run_of_two(const Call &call, const Params &params, RowOfTwo<Params> row) {
  const Box tile = in_numbers(call.layer, call.tile);
  const Dims a = operand_dims(call.layer, "a"), b = operand_dims(call.layer, "b");
  const int out_bytes = number_bytes(call.layer, -1);
  auto dense = [&](const Dims &d, int64_t pixel, int bytes) { return d.w > 1 && d.c > 1 && pixel == tile.n * bytes; };
  const bool joined = dense(a, call.reads[0].pixel, number_bytes(call.layer, 0)) &&
                      dense(b, call.reads[1].pixel, number_bytes(call.layer, 1)) &&
                      call.write.pixel == tile.n * out_bytes;
  const int64_t w = joined ? 1 : tile.w, n = joined ? tile.w * tile.n : tile.n;
  for (int64_t y = tile.y; y < tile.y + tile.h; ++y)
    for (int64_t x = tile.x; x < tile.x + w; ++x)
      row(params, n, source_of(call, 0, a, tile, y, x), source_of(call, 1, b, tile, y, x),
          {call.write.at(y, x, call.tile.c), out_bytes});
}

void check_add(const Layer &layer) {
  check_two(layer);
  check_scale(layer, "m_a", "f_a"), check_scale(layer, "m_b", "f_b");
  want(layer.get("sub") == 0 || layer.get("sub") == 1, "wide_add.sub: want 0 or 1");
}

void add(const Call &call) {
  const Layer &l = call.layer;
  auto term = [&](const char *zp, const char *m, const char *f) {
    return Term{number(l, zp), number(l, m), int(l.get(f)) - 16};
  };
  const AddParams params{term("zp_a", "m_a", "f_a"), term("zp_b", "m_b", "f_b"), l.get("sub") != 0,
                         number(l, "out_zp"),        number(l, "lo"),            number(l, "hi")};
  run_of_two<AddParams>(call, params, wide_for(call.isa).add);
}

void check_mul(const Layer &layer) {
  check_two(layer);
  check_scale(layer, "m", "f");
}

void mul(const Call &call) {
  const Layer &l = call.layer;
  const MulParams params{number(l, "zp_a"), number(l, "zp_b"), number(l, "m"), number(l, "f"),
                         number(l, "out_zp"), number(l, "lo"), number(l, "hi")};
  run_of_two<MulParams>(call, params, wide_for(call.isa).mul);
}

// ---- requantize, lut -------------------------------------------------------------------------------------------------

void check_one(const Layer &layer) {
  check_bytes(layer, {"x_bytes", "out_bytes"});
  check_wide_limits(layer);
  check_same_numbers(layer);
}

// Calls row(n, source, sink) for rows of numbers.
template <class Row>
void run_of_one(const Call &call, const Row &row) {
  const Box &tile = call.tile;
  const Source &x = call.reads[0];
  const int x_bytes = number_bytes(call.layer, 0), y_bytes = number_bytes(call.layer, -1);
  const int64_t numbers = tile.n / y_bytes, c = tile.c / y_bytes * x_bytes;
  const bool joined = x.pixel == numbers * x_bytes && call.write.pixel == numbers * y_bytes;
  for (int64_t at_y = tile.y; at_y < tile.y + tile.h; ++at_y)
    for (int64_t at_x = tile.x; at_x < tile.x + (joined ? 1 : tile.w); ++at_x)
      row(joined ? numbers * tile.w : numbers, WideSource{x.at(at_y, at_x, c), x_bytes, 1},
          WideSink{call.write.at(at_y, at_x, tile.c), y_bytes});
}

void check_requantize(const Layer &layer) {
  check_one(layer);
  check_zero_point(layer, "zp", "x_bytes"), check_zero_point(layer, "out_zp", "out_bytes");
  check_scale(layer, "m", "f");
}

void requantize_numbers(const Call &call) {
  const Layer &l = call.layer;
  const WideRequant params{number(l, "zp"),     number(l, "m"),  number(l, "f"),
                           number(l, "out_zp"), number(l, "lo"), number(l, "hi")};
  run_of_one(call, [&](int64_t n, const WideSource &x, const WideSink &y) {
    wide_for(call.isa).requantize(params, n, x, y);
  });
}

void needs_lut(const Layer &layer, const Box &tile, int64_t part, Box *of) {
  needs_same_numbers(layer, tile, part, of);
  of[1] = flat(0, layer.get("x_bytes") == 1 ? 256 * 2 : 1025 * 4);
}

void lut(const Call &call) {
  const int32_t lo = number(call.layer, "lo"), hi = number(call.layer, "hi");
  run_of_one(call, [&](int64_t n, const WideSource &x, const WideSink &y) {
    wide_for(call.isa).lut(call.reads[1].flat(0), lo, hi, n, x, y);
  });
}

// ---- avg_pool --------------------------------------------------------------------------------------------------------

void check_avg(const Layer &layer) {
  check_bytes(layer, {"x_bytes", "out_bytes"});
  check_wide_limits(layer);
  check_zero_point(layer, "zp", "x_bytes"), check_zero_point(layer, "out_zp", "out_bytes");
  check_counted_window(layer);
  want(layer.in.c / layer.get("x_bytes") == layer.out.c / layer.get("out_bytes"),
       "wide_avg_pool: input and output have different channels");
}

void needs_avg(const Layer &layer, const Box &bytes, int64_t, Box *of) {
  of[0] = in_bytes(pool_box(layer, in_numbers(layer, bytes)), layer.get("x_bytes"));
  of[1] = flat(0, 12);  // one row; a count without a row is found when it occurs
}

size_t scratch_avg(const Call &call) { return size_t(call.tile.n / number_bytes(call.layer, -1)) * sizeof(int64_t); }

void avg_pool(const Call &call) {
  const Layer &l = call.layer;
  const Wide &wide = wide_for(call.isa);
  const Box t = in_numbers(l, call.tile);
  const Window wy = window_of(l, 0), wx = window_of(l, 1);
  const int x_bytes = number_bytes(l, 0), y_bytes = number_bytes(l, -1);
  int64_t *sums = static_cast<int64_t *>(call.scratch);
  WideRequant constant{0, 0, 0, number(l, "out_zp"), number(l, "lo"), number(l, "hi")};
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
      std::fill(sums, sums + t.n, count ? -l.get("zp") * ky.count * kx.count : 0);
      for (int64_t k = 0; count && k < ky.count * kx.count; ++k) {
        const int64_t iy = y * wy.stride - wy.pad + (ky.first + k / kx.count) * wy.dilation;
        const int64_t ix = x * wx.stride - wx.pad + (kx.first + k % kx.count) * wx.dilation;
        wide.sum(t.n, {call.reads[0].at(iy, ix, t.c * x_bytes), x_bytes, 1}, sums);
      }
      wide.finish(constant, t.n, sums, {call.write.at(y, x, call.tile.c), y_bytes});
    }
  }
}

}  // namespace

const OpInfo wide_add_op = {2, check_add, needs_of_two, no_scratch, add, false};
const OpInfo wide_mul_op = {2, check_mul, needs_of_two, no_scratch, mul, false};
const OpInfo wide_requantize_op = {1, check_requantize, needs_same_numbers, no_scratch, requantize_numbers, false};
const OpInfo wide_lut_op = {2, check_one, needs_lut, no_scratch, lut, false};
const OpInfo wide_avg_pool_op = {2, check_avg, needs_avg, scratch_avg, avg_pool, false};

}  // namespace axtool
