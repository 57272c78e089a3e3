// fx_add, fx_mul, fx_requantize, fx_quantize, fx_dequantize, fx_lut, fx_from_fp16, fp16_from_fx: rows of numbers.
#include "../mixed/mixed.h"

#include <algorithm>

#include "../ops.h"
#include "mixed_checks.h"
#include "operands.h"

namespace axtool {
namespace {

constexpr int64_t kTableBytes = 4 * ((1 << 12) + 1);
constexpr int64_t kFew = 8;  // numbers of a pixel

int32_t number(const Layer &layer, const char *field) { return int32_t(layer.get(field)); }
size_t no_scratch(const Call &) { return 0; }

// ---- add, mul --------------------------------------------------------------------------------------------------------

void check_two(const Layer &layer) {
  check_size(layer, "a_bytes", {4}), check_size(layer, "b_bytes", {4}), check_size(layer, "out_bytes", {4});
  check_whole_numbers(layer), check_bounds(layer);
  const Dims a = operand_dims(layer, "a");
  want(a.h == layer.in.h && a.w == layer.in.w && a.c * 4 == layer.in.c,
       std::string(layer.name()) + ": a and the first input do not have the same dims");
  check_operands(layer, {layer.out.h, layer.out.w, layer.out.c / 4});
}

void check_add(const Layer &layer) {
  check_two(layer);
  check_field(layer, "shift_a", kMostLeft, kMostRight), check_field(layer, "shift_b", kMostLeft, kMostRight);
  check_field(layer, "sub", 0, 1);
}

void check_mul(const Layer &layer) {
  check_two(layer);
  check_field(layer, "shift", kMostLeft, kMostRight);
}

void needs_of_two(const Layer &layer, const Box &bytes, int64_t, Box *of) {
  const Box tile = in_numbers(layer, bytes);
  of[0] = in_bytes(operand_box(operand_dims(layer, "a"), tile), 4);
  of[1] = in_bytes(operand_box(operand_dims(layer, "b"), tile), 4);
}

// Calls row(n, a, b, y) for rows of numbers: one a pixel, or one a line where nothing lies between its pixels.
template <class Row>
void run_of_two(const Call &call, const Row &row) {
  const Box &tile = call.tile;
  const Dims dims[] = {operand_dims(call.layer, "a"), operand_dims(call.layer, "b")};
  bool joined = call.write.pixel == tile.n;
  for (int i = 0; i < 2; ++i) joined = joined && dims[i].w > 1 && dims[i].c > 1 && call.reads[i].pixel == tile.n;
  const int64_t w = joined ? 1 : tile.w, n = (joined ? tile.w : 1) * tile.n / 4;
  auto source = [&](int i, int64_t y, int64_t x) {
    const Dims &d = dims[i];
    return FxSource{call.reads[i].at(d.h == 1 ? 0 : y, d.w == 1 ? 0 : x, d.c == 1 ? 0 : tile.c), d.c == 1 ? 0 : 1};
  };
  for (int64_t y = tile.y; y < tile.y + tile.h; ++y)
    for (int64_t x = tile.x; x < tile.x + w; ++x) row(n, source(0, y, x), source(1, y, x), call.write.at(y, x, tile.c));
}

void add(const Call &call) {
  const Layer &l = call.layer;
  const FxAdd params{number(l, "shift_a"), number(l, "shift_b"), l.get("sub") != 0, number(l, "lo"), number(l, "hi")};
  const auto kernel = mixed_for(call.isa).add;
  run_of_two(call, [&](int64_t n, const FxSource &a, const FxSource &b, int8_t *y) { kernel(params, n, a, b, y); });
}

void mul(const Call &call) {
  const FxMul params{number(call.layer, "shift"), number(call.layer, "lo"), number(call.layer, "hi")};
  const auto kernel = mixed_for(call.isa).mul;
  run_of_two(call, [&](int64_t n, const FxSource &a, const FxSource &b, int8_t *y) { kernel(params, n, a, b, y); });
}

// ---- one operand -----------------------------------------------------------------------------------------------------

void check_one(const Layer &layer, std::initializer_list<int64_t> x, std::initializer_list<int64_t> out) {
  check_size(layer, "x_bytes", x), check_size(layer, "out_bytes", out);
  check_whole_numbers(layer);
  check_same_numbers(layer);
}

// The same of pixels with so few numbers that a call for each would take longer: they are brought together first.
template <class Row>
void run_of_few(const Call &call, int64_t numbers, int64_t c, const Row &row) {
  constexpr int64_t kTogether = 512;
  alignas(32) int8_t from[4 * kTogether], to[4 * kTogether];
  const Box &tile = call.tile;
  const int64_t x_bytes = numbers * call.layer.get("x_bytes"), most = kTogether / numbers, end = tile.x + tile.w;
  for (int64_t at_y = tile.y; at_y < tile.y + tile.h; ++at_y)
    for (int64_t at_x = tile.x; at_x < end; at_x += most) {
      const int64_t w = std::min(most, end - at_x);
      copy_box(call.reads[0].at(at_y, at_x, c), 0, call.reads[0].pixel, from, 0, x_bytes, 1, w, x_bytes);
      row(numbers * w, from, to);
      copy_box(to, 0, tile.n, call.write.at(at_y, at_x, tile.c), 0, call.write.pixel, 1, w, tile.n);
    }
}

// Calls row(n, x, y) for rows of numbers.
template <class Row>
void run_of_one(const Call &call, const Row &row) {
  const Box &tile = call.tile;
  const Source &x = call.reads[0];
  const int64_t x_bytes = call.layer.get("x_bytes"), y_bytes = call.layer.get("out_bytes");
  const int64_t numbers = tile.n / y_bytes, c = tile.c / y_bytes * x_bytes;
  const bool joined = x.pixel == numbers * x_bytes && call.write.pixel == tile.n;
  if (!joined && numbers <= kFew && tile.w > 1) return run_of_few(call, numbers, c, row);
  for (int64_t at_y = tile.y; at_y < tile.y + tile.h; ++at_y)
    for (int64_t at_x = tile.x; at_x < tile.x + (joined ? 1 : tile.w); ++at_x)
      row(joined ? numbers * tile.w : numbers, x.at(at_y, at_x, c), call.write.at(at_y, at_x, tile.c));
}

void check_requantize(const Layer &layer) {
  check_one(layer, {4}, {4}), check_bounds(layer);
  check_field(layer, "shift", kMostLeft, kMostRight);
}

void requantize_fx(const Call &call) {
  const FxShift params{number(call.layer, "shift"), number(call.layer, "lo"), number(call.layer, "hi")};
  const auto kernel = mixed_for(call.isa).requantize;
  run_of_one(call, [&](int64_t n, const int8_t *x, int8_t *y) { kernel(params, n, x, y); });
}

void check_quantize(const Layer &layer) {
  check_one(layer, {4}, {1, 2}), check_bounds(layer);
  check_zero_point(layer, "out_zp", "out_bytes");
  check_field(layer, "inverse", 0, INT32_MAX), check_field(layer, "shift", 0, kMostRight);
  check_field(layer, "rest", 0, kMostRight);
}

void quantize(const Call &call) {
  const Layer &l = call.layer;
  const FxQuantize params{number(l, "inverse"), number(l, "shift"), number(l, "rest"),
                          number(l, "out_zp"),  number(l, "lo"),    number(l, "hi")};
  const auto kernel = mixed_for(call.isa).quantize;
  const int bytes = number(l, "out_bytes");
  run_of_one(call, [&](int64_t n, const int8_t *x, int8_t *y) { kernel(params, n, x, y, bytes); });
}

void check_dequantize(const Layer &layer) {
  check_one(layer, {1, 2}, {4});
  check_zero_point(layer, "zp", "x_bytes");
  check_field(layer, "scale", 0, INT32_MAX), check_field(layer, "shift", kMostLeft, kMostRight);
}

void dequantize(const Call &call) {
  const Layer &l = call.layer;
  const FxDequantize params{number(l, "zp"), number(l, "scale"), number(l, "shift")};
  const auto kernel = mixed_for(call.isa).dequantize;
  const int bytes = number(l, "x_bytes");
  run_of_one(call, [&](int64_t n, const int8_t *x, int8_t *y) { kernel(params, n, x, bytes, y); });
}

void check_lut(const Layer &layer) {
  check_one(layer, {4}, {4});
  check_field(layer, "interval", 0, 20);
}

void needs_lut(const Layer &layer, const Box &tile, int64_t part, Box *of) {
  needs_same_numbers(layer, tile, part, of);
  of[1] = flat(0, kTableBytes);
}

void lut(const Call &call) {
  const FxTable table{call.reads[1].flat(0), number(call.layer, "first"), number(call.layer, "interval")};
  const auto kernel = mixed_for(call.isa).lut;
  run_of_one(call, [&](int64_t n, const int8_t *x, int8_t *y) { kernel(table, n, x, y); });
}

void check_from_fp16(const Layer &layer) { check_one(layer, {2}, {4}), check_field(layer, "f", 0, 31); }
void check_to_fp16(const Layer &layer) { check_one(layer, {4}, {2}), check_field(layer, "f", 0, 31); }

void from_fp16(const Call &call) {
  const auto kernel = mixed_for(call.isa).from_fp16;
  const int f = number(call.layer, "f");
  run_of_one(call, [&](int64_t n, const int8_t *x, int8_t *y) { kernel(f, n, x, y); });
}

void to_fp16(const Call &call) {
  const auto kernel = mixed_for(call.isa).to_fp16;
  const int f = number(call.layer, "f");
  run_of_one(call, [&](int64_t n, const int8_t *x, int8_t *y) { kernel(f, n, x, y); });
}

}  // namespace

const OpInfo fx_add_op = {2, check_add, needs_of_two, no_scratch, add, true};
const OpInfo fx_mul_op = {2, check_mul, needs_of_two, no_scratch, mul, true};
const OpInfo fx_requantize_op = {1, check_requantize, needs_same_numbers, no_scratch, requantize_fx, true};
const OpInfo fx_quantize_op = {1, check_quantize, needs_same_numbers, no_scratch, quantize, false};
const OpInfo fx_dequantize_op = {1, check_dequantize, needs_same_numbers, no_scratch, dequantize, false};
const OpInfo fx_lut_op = {2, check_lut, needs_lut, no_scratch, lut, true};
const OpInfo fx_from_fp16_op = {1, check_from_fp16, needs_same_numbers, no_scratch, from_fp16, false};
const OpInfo fp16_from_fx_op = {1, check_to_fp16, needs_same_numbers, no_scratch, to_fp16, false};

}  // namespace axtool
