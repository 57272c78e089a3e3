// add, mul, requantize, lut, concat: one number of each operand -> one number.
#include <cstring>

#include "../ops.h"
#include "operands.h"

namespace axtool {
namespace {

// ---- add, mul: operands whose rows, columns or channels may be single ------------------------------------------------

void needs_of_two(const Layer &layer, const Box &tile, int64_t, Box *of) {
  of[0] = operand_box(operand_dims(layer, "a"), tile);
  of[1] = operand_box(operand_dims(layer, "b"), tile);
}

// A row of an operand as wide as the tile: where it begins and how far its pixels are apart.
struct Strip {
  const int8_t *p;
  int64_t pixel;
};

Strip strip(const Call &call, int read, const Dims &d, int64_t y, int8_t *spread) {
  const Box &tile = call.tile, box = operand_box(d, tile);
  const Source &x = call.reads[read];
  const int8_t *p = x.at(d.h == 1 ? 0 : y, box.x, box.c);
  const int64_t pixel = box.w == tile.w ? x.pixel : 0;
  if (box.n == tile.n) return {p, tile.w == 1 ? tile.n : pixel};
  const int64_t pixels = box.w;  // single channels are repeated in scratch
  for (int64_t i = 0; i < pixels; ++i) std::memset(spread + i * tile.n, p[i * x.pixel], size_t(tile.n));
  return {spread, pixels == tile.w ? tile.n : 0};
}

size_t scratch_of_two(const Call &call) { return size_t(2 * call.tile.w * call.tile.n); }

template <class Params>
using Row = void (*)(const Params &, int64_t, int64_t, const int8_t *, int64_t, const int8_t *, int64_t, int8_t *,
                     int64_t);

template <class Params>
void run_of_two(const Call &call, const Params &params, Row<Params> row) {
  const Box &tile = call.tile;
  const Dims a_dims = operand_dims(call.layer, "a"), b_dims = operand_dims(call.layer, "b");
  int8_t *spread = static_cast<int8_t *>(call.scratch);
  const int64_t y_pixel = tile.w == 1 ? tile.n : call.write.pixel;
  for (int64_t y = tile.y; y < tile.y + tile.h; ++y) {
    const Strip a = strip(call, 0, a_dims, y, spread), b = strip(call, 1, b_dims, y, spread + tile.w * tile.n);
    row(params, tile.w, tile.n, a.p, a.pixel, b.p, b.pixel, call.write.at(y, tile.x, tile.c), y_pixel);
  }
}

void check_add(const Layer &layer) {
  check_operands(layer, layer.out);
  check_int8(layer, "zp_a"), check_int8(layer, "zp_b"), check_int8(layer, "out_zp"), check_limits(layer);
  check_scale(layer, "m_a", "f_a"), check_scale(layer, "m_b", "f_b");
  want(layer.get("sub") == 0 || layer.get("sub") == 1, "add.sub: want 0 or 1");
}

void add(const Call &call) {
  const Layer &l = call.layer;
  auto term = [&](const char *zp, const char *m, const char *f) {
    return Term{int32_t(l.get(zp)), int32_t(l.get(m)), int(l.get(f)) - 16};
  };
  const AddParams params{term("zp_a", "m_a", "f_a"), term("zp_b", "m_b", "f_b"), l.get("sub") != 0,
                         int32_t(l.get("out_zp")),   int32_t(l.get("lo")),       int32_t(l.get("hi"))};
  run_of_two<AddParams>(call, params, call.loops.add);
}

void check_mul(const Layer &layer) {
  check_operands(layer, layer.out);
  check_int8(layer, "zp_a"), check_int8(layer, "zp_b"), check_int8(layer, "out_zp"), check_limits(layer);
  check_scale(layer, "m", "f");
}

void mul(const Call &call) {
  const Layer &l = call.layer;
  auto get = [&](const char *field) { return int32_t(l.get(field)); };
  const MulParams params{get("zp_a"), get("zp_b"), get("m"), get("f"), get("out_zp"), get("lo"), get("hi")};
  run_of_two<MulParams>(call, params, call.loops.mul);
}

// ---- one operand: everything on 256 values is a table ----------------------------------------------------------------

void needs_same(const Layer &, const Box &tile, int64_t, Box *of) { of[0] = tile; }
size_t no_scratch(const Call &) { return 0; }

// `to` of the output from `from` of the first read, through a table.
void look_up(const Call &call, const int8_t *table, const Box &from, const Box &to) {
  const Source &x = call.reads[0];
  int64_t h = to.h, w = to.w, n = to.n;
  int64_t x_pixel = x.pixel, y_pixel = call.write.pixel;
  if (w == 1) x_pixel = y_pixel = n;
  if (x_pixel == n && y_pixel == n && (h == 1 || (x.row == w * n && call.write.row == w * n))) w *= h, h = 1;
  for (int64_t y = 0; y < h; ++y)
    call.loops.lut(table, w, n, x.at(from.y + y, from.x, from.c), x_pixel, call.write.at(to.y + y, to.x, to.c), y_pixel);
}

void requantize_table(int64_t zp, int64_t m, int64_t f, int64_t out_zp, int64_t lo, int64_t hi, int8_t *table) {
  for (int64_t q = -128; q < 128; ++q) table[q + 128] = int8_t(clamp(requantize(q - zp, m, f) + out_zp, lo, hi));
}

void check_requantize(const Layer &layer) {
  check_same_dims(layer);
  check_int8(layer, "zp"), check_int8(layer, "out_zp"), check_limits(layer), check_scale(layer, "m", "f");
}

void run_requantize(const Call &call) {
  const Layer &l = call.layer;
  int8_t table[256];
  requantize_table(l.get("zp"), l.get("m"), l.get("f"), l.get("out_zp"), l.get("lo"), l.get("hi"), table);
  look_up(call, table, call.tile, call.tile);
}

void check_lut(const Layer &layer) {
  check_same_dims(layer);
  want(layer.get("per_channel") == 0 || layer.get("per_channel") == 1, "lut.per_channel: want 0 or 1");
}

void needs_lut(const Layer &layer, const Box &tile, int64_t, Box *of) {
  of[0] = tile;
  of[1] = layer.get("per_channel") ? flat(tile.c * 256, tile.n * 256) : flat(0, 256);
}

void lut(const Call &call) {
  const Box &t = call.tile;
  if (!call.layer.get("per_channel")) return look_up(call, call.reads[1].flat(0), t, t);
  const int8_t *table = call.reads[1].flat(t.c * 256) + 128;
  for (int64_t y = t.y; y < t.y + t.h; ++y)
    for (int64_t x = t.x; x < t.x + t.w; ++x) {
      const int8_t *in = call.reads[0].at(y, x, t.c);
      int8_t *out = call.write.at(y, x, t.c);
      for (int64_t c = 0; c < t.n; ++c) out[c] = table[c * 256 + in[c]];
    }
}

// ---- concat ----------------------------------------------------------------------------------------------------------

int64_t parts(const Layer &layer) { return (int64_t(layer.values.size()) - 2) / 4; }

void check_concat(const Layer &layer) {
  const int64_t axis = layer.get("axis"), count = parts(layer);
  want(axis >= 0 && axis <= 2, "concat.axis: want 0, 1 or 2");
  want(count >= 1 && int64_t(layer.values.size()) == 2 + 4 * count, "concat.parts: want four integers for each input");
  check_int8(layer, "out_zp");
  const int64_t size = axis == 0 ? layer.out.h : axis == 1 ? layer.out.w : layer.out.c;
  for (int64_t p = 0; p < count; ++p) {
    const int64_t first = layer.get("parts", int(4 * p)), end = p + 1 < count ? layer.get("parts", int(4 * p + 4)) : size;
    want((p || first == 0) && first < end && end <= size, "concat.parts: part " + std::to_string(p) + " is empty or outside");
    const int64_t zp = layer.get("parts", int(4 * p + 1)), m = layer.get("parts", int(4 * p + 2)),
                  f = layer.get("parts", int(4 * p + 3));
    want(zp >= -128 && zp <= 127 && m >= 0 && f >= 0 && f <= 31,
         "concat.parts: the format of part " + std::to_string(p));
  }
}

Box part_box(const Layer &layer, int64_t part) {
  const int64_t axis = layer.get("axis"), first = layer.get("parts", int(4 * part));
  Box box = whole(layer.out);
  int64_t *at[] = {&box.y, &box.x, &box.c}, *count[] = {&box.h, &box.w, &box.n};
  const int64_t end = part + 1 < parts(layer) ? layer.get("parts", int(4 * part + 4)) : *count[axis];
  *at[axis] = first, *count[axis] = end - first;
  return box;
}

// A box of the output in the coordinates of the input that fills it.
Box in_part(const Layer &layer, Box box, int64_t part) {
  int64_t *at[] = {&box.y, &box.x, &box.c};
  *at[layer.get("axis")] -= layer.get("parts", int(4 * part));
  return box;
}

void needs_concat(const Layer &layer, const Box &tile, int64_t part, Box *of) {
  of[0] = in_part(layer, written(layer, tile, part), part);
}

void concat(const Call &call) {
  const Layer &l = call.layer;
  const Box to = written(l, call.tile, call.part);
  if (empty(to)) return;
  const Box from = in_part(l, to, call.part);
  const int at = int(4 * call.part);
  const int64_t zp = l.get("parts", at + 1), m = l.get("parts", at + 2), f = l.get("parts", at + 3);
  if (m == 0) return copy_box(call.reads[0], call.write, from, to);
  int8_t table[256];
  requantize_table(zp, m, f, l.get("out_zp"), -128, 127, table);
  look_up(call, table, from, to);
}

}  // namespace

Box written(const Layer &layer, const Box &tile, int64_t part) {
  if (layer.op != Op::concat) return tile;
  want(part >= 0 && part < parts(layer), "concat has no part " + std::to_string(part));
  return intersection(tile, part_box(layer, part));
}

const OpInfo add_op = {2, check_add, needs_of_two, scratch_of_two, add, true};
const OpInfo mul_op = {2, check_mul, needs_of_two, scratch_of_two, mul, true};
const OpInfo requantize_op = {1, check_requantize, needs_same, no_scratch, run_requantize, true};
const OpInfo lut_op = {2, check_lut, needs_lut, no_scratch, lut, true};
const OpInfo concat_op = {1, check_concat, needs_concat, no_scratch, concat, false};

}  // namespace axtool
