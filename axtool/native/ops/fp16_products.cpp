// fp16_matmul and fp16_attention: products of two activations of fp16, in float32. As matmul and attention, row by row;
// the exponentials of a whole row are made before it meets the values.
#include <algorithm>

#include "../mixed/mixed_scalar.h"
#include "../ops.h"
#include "../products/products.h"
#include "arena.h"
#include "operands.h"
#include "products_limits.h"

namespace axtool {
namespace {

constexpr int64_t kHalf = 2;                // bytes of a number
constexpr int64_t kScoreBytes = 192 << 10;  // of float sums at a time: they stay in the second cache
constexpr int64_t kRowUnit = 12, kMostRows = 48;

void check_sizes(const Layer &l, std::initializer_list<const char *> inputs) {
  const std::string name = l.name();
  for (const char *field : inputs) want(l.get(field) == kHalf, name + "." + field + ": want 2");
  const int64_t out = l.get("out_bytes");
  want(out == 2 || out == 4, name + ".out_bytes: want 2 or 4");
  want(l.in.c % kHalf == 0 && l.out.c % out == 0, name + ": channels do not divide into numbers");
  want(l.get("f") >= -31 && l.get("f") <= 31, name + ".f: want -31..31");
}

// What a row of results becomes.
struct Results {
  int64_t bytes;
  float scale;  // of an fx32
  explicit Results(const Layer &l) : bytes(l.get("out_bytes")), scale(power_of_two(int(l.get("f")))) {}

  void store(const float *x, float factor, int64_t n, int8_t *y) const {
    for (int64_t i = 0; i < n; ++i)
      if (bytes == 4) mixed_store(y, i, float_to_fx(x[i] * factor, scale));
      else mixed_store(y, i, float_to_half(x[i] * factor));
  }
};

// Columns of b (k x n halves, `k_step` and `n_step` bytes apart) as panels of floats; `row` has room for a line of them.
void pack_halves(const Products &products, const int8_t *b, int64_t k, int64_t n, int64_t k_step, int64_t n_step,
                 float *row, float *packed) {
  const int64_t panel = k * kPanel;
  std::fill(packed, packed + panels_of(n) * panel, 0.0f);
  if (n_step == kHalf) {
    for (int64_t i = 0; i < k; ++i) {
      products.widen(n, b + i * k_step, row);
      for (int64_t j = 0; j < n; ++j) packed[j / kPanel * panel + i * kPanel + j % kPanel] = row[j];
    }
    return;
  }
  for (int64_t j = 0; j < n; ++j) {  // k_step is that of halves: a transposed b
    products.widen(k, b + j * n_step, row);
    for (int64_t i = 0; i < k; ++i) packed[j / kPanel * panel + i * kPanel + j % kPanel] = row[i];
  }
}

// ---- matmul ----------------------------------------------------------------------------------------------------------

void check_matmul(const Layer &l) {
  check_sizes(l, {"a_bytes", "b_bytes"});
  want(l.get("trans_b") == 0 || l.get("trans_b") == 1, "fp16_matmul.trans_b: want 0 or 1");
  const Dims b = operand_dims(l, "b");
  const bool turned = l.get("trans_b");
  const int64_t k = l.in.c / kHalf, n = l.out.c / l.get("out_bytes");
  want(b.h == 1 || b.h == l.in.h, "fp16_matmul: ", b.h, " matrices b for ", l.in.h, " matrices a");
  want(l.in.h == l.out.h && l.in.w == l.out.w && (turned ? b.c : b.w) == k && (turned ? b.w : b.c) == n,
       "fp16_matmul: a and b do not make the output");
  want(k <= kMostDepth, "fp16_matmul: more than 2^15 products in a sum");
  want(k * n <= kMostOperand, "fp16_matmul: a matrix b of more than 2^28 numbers");
}

void needs_matmul(const Layer &l, const Box &bytes, int64_t, Box *of) {
  const Box tile = in_numbers(l, bytes);
  const int64_t k = l.in.c / kHalf;
  of[0] = {tile.y, tile.x, 0, tile.h, tile.w, l.in.c};
  const bool each = l.get("b", 0) > 1;
  const int64_t y = each ? tile.y : 0, h = each ? tile.h : 1;
  of[1] = in_bytes(l.get("trans_b") ? Box{y, tile.c, 0, h, tile.n, k} : Box{y, 0, tile.c, h, k, tile.n}, kHalf);
}

struct MatmulBuffers {
  float *right, *left, *sums, *row;
};

MatmulBuffers matmul_buffers(const Call &call, Arena &arena) {
  const int64_t k = call.layer.in.c / kHalf, n = in_numbers(call.layer, call.tile).n;
  MatmulBuffers b;
  b.right = arena.take<float>(panels_of(n) * kPanel * k);
  b.left = arena.take<float>(kMostRows * k);
  b.sums = arena.take<float>(kMostRows * panels_of(n) * kPanel);
  b.row = arena.take<float>(std::max(k, n));
  return b;
}

size_t scratch_matmul(const Call &call) {
  Arena arena;
  matmul_buffers(call, arena);
  return arena.used();
}

void run_matmul(const Call &call) {
  const Layer &l = call.layer;
  const Box t = in_numbers(l, call.tile);
  const Source &left = call.reads[0], &right = call.reads[1];
  const Products &products = products_for(call.isa);
  const int64_t k = l.in.c / kHalf, width = panels_of(t.n) * kPanel;
  const bool each = l.get("b", 0) > 1, turned = l.get("trans_b");
  const Results results(l);
  Arena arena(call.scratch);
  const MatmulBuffers room = matmul_buffers(call, arena);
  for (int64_t y = t.y; y < t.y + t.h; ++y) {
    if (y == t.y || each) {
      const int64_t at = each ? y : 0;
      if (turned) pack_halves(products, right.at(at, t.c, 0), k, t.n, kHalf, right.pixel, room.row, room.right);
      else pack_halves(products, right.at(at, 0, t.c * kHalf), k, t.n, right.pixel, kHalf, room.row, room.right);
    }
    for (int64_t x = t.x; x < t.x + t.w; x += kMostRows) {
      const int64_t rows = std::min(kMostRows, t.x + t.w - x);
      for (int64_t r = 0; r < rows; ++r) products.widen(k, left.at(y, x + r, 0), room.left + r * k);
      products.floats({rows, panels_of(t.n), k, room.left, k, room.right, k * kPanel, room.sums, width});
      for (int64_t r = 0; r < rows; ++r)
        results.store(room.sums + r * width, 1.0f, t.n, call.write.at(y, x + r, call.tile.c));
    }
  }
}

// ---- attention -------------------------------------------------------------------------------------------------------

int64_t depth_of(const Layer &l) { return l.in.c / kHalf / l.get("heads"); }
int64_t made_of(const Layer &l) { return l.out.c / l.get("out_bytes") / l.get("heads"); }

void check_attention(const Layer &l) {
  check_sizes(l, {"x_bytes"});
  const int64_t heads = l.get("heads"), keys = l.get("keys");
  want(l.in.h == 1 && l.out.h == 1 && l.in.w == l.out.w, "fp16_attention: queries and output have other rows or lengths");
  want(heads >= 1 && l.in.c / kHalf % heads == 0 && l.out.c / l.get("out_bytes") % heads == 0,
       "fp16_attention: channels do not divide into ", heads, " heads");
  want(keys >= 1 && keys <= kMostKeys, "fp16_attention.keys is ", keys, ": want 1..2^18");
  want(depth_of(l) <= kMostDepth, "fp16_attention: more than 2^15 products in a sum");
  want(keys * heads * std::max(depth_of(l), made_of(l)) <= kMostOperand,
       "fp16_attention: keys or values of more than 2^28 numbers");
  want(l.get("mask") >= 0 && l.get("mask") <= 2, "fp16_attention.mask: want 0..2");
  want(l.get("form") == 0 || l.get("form") == 1, "fp16_attention.form: want 0 or 1");
  want(l.get("f_s") >= 0 && l.get("f_s") <= 31, "fp16_attention.f_s: want 0..31");
}

void needs_attention(const Layer &l, const Box &bytes, int64_t, Box *of) {
  const Box t = in_numbers(l, bytes);
  const int64_t keys = l.get("keys"), mask = l.get("mask"), depth = depth_of(l), made = made_of(l);
  const int64_t first = t.c / made, heads = ceil_div(t.c + t.n, made) - first;
  of[0] = in_bytes({0, t.x, first * depth, 1, t.w, heads * depth}, kHalf);
  of[1] = in_bytes({0, 0, first * depth, 1, keys, heads * depth}, kHalf);
  of[2] = in_bytes({0, 0, first * made, 1, keys, heads * made}, kHalf);
  if (mask) of[3] = in_bytes({0, mask == 2 ? t.x : 0, 0, 1, mask == 2 ? t.w : 1, keys}, kHalf);
}

int64_t rows_at_a_time(const Layer &l) {
  const int64_t row = panels_of(l.get("keys")) * kPanel * int64_t(sizeof(float));
  return std::clamp(kScoreBytes / row / kRowUnit * kRowUnit, kRowUnit, kMostRows);
}

struct Buffers {
  float *keys, *values, *query, *scores, *contexts, *row, *totals;
  int32_t *fixed, *mask;
};

Buffers buffers(const Layer &l, Arena &arena) {
  const int64_t rows = rows_at_a_time(l), keys = l.get("keys"), depth = depth_of(l), made = made_of(l);
  Buffers b;
  b.keys = arena.take<float>(panels_of(keys) * kPanel * depth);
  b.values = arena.take<float>(panels_of(made) * kPanel * keys);
  b.query = arena.take<float>(rows * depth);
  b.scores = arena.take<float>(rows * panels_of(keys) * kPanel);
  b.contexts = arena.take<float>(rows * panels_of(made) * kPanel);
  b.row = arena.take<float>(std::max(depth, made));
  b.totals = arena.take<float>(rows);
  b.fixed = arena.take<int32_t>(keys);
  b.mask = arena.take<int32_t>(keys);
  return b;
}

size_t scratch_attention(const Call &call) {
  Arena arena;
  buffers(call.layer, arena);
  return arena.used();
}

void run_attention(const Call &call) {
  const Layer &l = call.layer;
  const Box t = in_numbers(l, call.tile);
  const Source &q = call.reads[0], &k = call.reads[1], &v = call.reads[2];
  const Products &products = products_for(call.isa);
  const int64_t keys = l.get("keys"), depth = depth_of(l), made = made_of(l), masks = l.get("mask");
  const int64_t width = panels_of(keys) * kPanel, wide = panels_of(made) * kPanel, step = rows_at_a_time(l);
  const Results results(l);
  const FxScores scores{bits_to_float(uint32_t(l.get("scale"))), int(l.get("f_s")), l.get("form") == 0};
  Arena arena(call.scratch);
  const Buffers b = buffers(l, arena);
  auto add_mask = [&](int64_t row) {
    const int8_t *mask = call.reads[3].at(0, row, 0);
    const float scale = power_of_two(scores.f);
    for (int64_t j = 0; j < keys; ++j) b.mask[j] = float_to_fx(half_to_float(mixed_load<uint16_t>(mask, j)), scale);
  };
  if (masks == 1) add_mask(0);
  for (int64_t head = t.c / made; head * made < t.c + t.n; ++head) {
    const int64_t first = std::max(head * made, t.c), end = std::min((head + 1) * made, t.c + t.n);
    pack_halves(products, k.at(0, 0, head * depth * kHalf), depth, keys, kHalf, k.pixel, b.row, b.keys);
    pack_halves(products, v.at(0, 0, head * made * kHalf), keys, made, v.pixel, kHalf, b.row, b.values);
    for (int64_t x = t.x; x < t.x + t.w; x += step) {
      const int64_t rows = std::min(step, t.x + t.w - x);
      for (int64_t r = 0; r < rows; ++r)
        products.widen(depth, q.at(0, x + r, head * depth * kHalf), b.query + r * depth);
      products.floats({rows, panels_of(keys), depth, b.query, depth, b.keys, depth * kPanel, b.scores, width});
      for (int64_t r = 0; r < rows; ++r) {
        if (masks == 2) add_mask(x + r);
        const int64_t units = products.powers(scores, b.scores + r * width, masks ? b.mask : nullptr, keys, b.fixed);
        b.totals[r] = 1.0f / (float(units) * power_of_two(-24));
      }
      products.floats({rows, panels_of(made), keys, b.scores, width, b.values, keys * kPanel, b.contexts, wide});
      for (int64_t r = 0; r < rows; ++r)
        results.store(b.contexts + r * wide + first - head * made, b.totals[r], end - first,
                      call.write.at(0, x + r, first * results.bytes));
    }
  }
}

}  // namespace

const OpInfo fp16_matmul_op = {2, check_matmul, needs_matmul, scratch_matmul, run_matmul, false};
const OpInfo fp16_attention_op = {3, check_attention, needs_attention, scratch_attention, run_attention, false};

}  // namespace axtool
