// matmul: the product of two int8 activations, row by row of matrices.
#include <algorithm>

#include "../ops.h"
#include "../products/products.h"
#include "arena.h"
#include "operands.h"
#include "products_limits.h"

namespace axtool {
namespace {

constexpr int64_t kRows = 48;  // rows of sums at a time

void check(const Layer &layer) {
  check_int8(layer, "zp_a"), check_int8(layer, "zp_b"), check_int8(layer, "out_zp"), check_limits(layer);
  check_scale(layer, "m", "f");
  want(layer.get("trans_b") == 0 || layer.get("trans_b") == 1, "matmul.trans_b: want 0 or 1");
  const Dims b = operand_dims(layer, "b");
  const bool turned = layer.get("trans_b");
  want(b.h == 1 || b.h == layer.in.h, "matmul: ", b.h, " matrices b for ", layer.in.h, " matrices a");
  want(layer.in.h == layer.out.h && layer.in.w == layer.out.w && (turned ? b.c : b.w) == layer.in.c &&
           (turned ? b.w : b.c) == layer.out.c,
       "matmul: a and b do not make the output");
  want(layer.in.c <= kMostDepth, "matmul: more than 2^15 products in a sum");
  want(layer.in.c * layer.out.c <= kMostOperand, "matmul: a matrix b of more than 2^28 bytes");
}

void needs(const Layer &layer, const Box &tile, int64_t, Box *of) {
  of[0] = {tile.y, tile.x, 0, tile.h, tile.w, layer.in.c};
  const bool each = layer.get("b", 0) > 1;
  const int64_t y = each ? tile.y : 0, h = each ? tile.h : 1;
  of[1] = layer.get("trans_b") ? Box{y, tile.c, 0, h, tile.n, layer.in.c} : Box{y, 0, tile.c, h, layer.in.c, tile.n};
}

struct Buffers {
  int16_t *right, *left;
  int32_t *sums;
};

Buffers buffers(const Call &call, Arena &arena) {
  const int64_t k = call.layer.in.c, n = call.tile.n;
  Buffers found;
  found.right = arena.take<int16_t>(packed_shorts(k, n));
  found.left = arena.take<int16_t>(kRows * 2 * pairs_of(k));
  found.sums = arena.take<int32_t>(kRows * panels_of(n) * kPanel);
  return found;
}

size_t scratch(const Call &call) {
  Arena arena;
  buffers(call, arena);
  return arena.used();
}

void run(const Call &call) {
  const Layer &l = call.layer;
  const Box &t = call.tile;
  const Source &left = call.reads[0], &right = call.reads[1];
  const Products &products = products_for(call.isa);
  const int64_t k = l.in.c, pairs = pairs_of(k), panels = panels_of(t.n);
  const bool each = l.get("b", 0) > 1, turned = l.get("trans_b");
  const int zp_a = int(l.get("zp_a"));
  const Requant constant{int32_t(l.get("m")), int32_t(l.get("f")), int32_t(l.get("out_zp")), int32_t(l.get("lo")),
                         int32_t(l.get("hi"))};
  Arena arena(call.scratch);
  const Buffers room = buffers(call, arena);
  for (int64_t y = t.y; y < t.y + t.h; ++y) {
    if (y == t.y || each) {
      const int8_t *b = turned ? right.at(each ? y : 0, t.c, 0) : right.at(each ? y : 0, 0, t.c);
      pack_shorts(b, k, t.n, turned ? 1 : right.pixel, turned ? right.pixel : 1, int(l.get("zp_b")), room.right);
    }
    for (int64_t x = t.x; x < t.x + t.w; x += kRows) {
      const int64_t rows = std::min(kRows, t.x + t.w - x);
      for (int64_t r = 0; r < rows; ++r) {
        const int8_t *a = left.at(y, x + r, 0);
        int16_t *row = room.left + r * 2 * pairs;
        for (int64_t i = 0; i < k; ++i) row[i] = int16_t(a[i] - zp_a);
        if (k % 2) row[k] = 0;
      }
      products.shorts({rows, panels, pairs, room.left, 2 * pairs, room.right, pairs * 2 * kPanel, room.sums, panels * kPanel});
      for (int64_t r = 0; r < rows; ++r)
        call.loops.requantize(constant, t.n, room.sums + r * panels * kPanel, call.write.at(y, x + r, t.c));
    }
  }
}

}  // namespace

const OpInfo matmul_op = {2, check, needs, scratch, run, false};

}  // namespace axtool
