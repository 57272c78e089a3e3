// attention: some rows of queries at a time, head by head. Their scores are finished, exponentials and all, before they
// meet the values; nothing of them is kept.
#include <algorithm>
#include <cstring>

#include "../ops.h"
#include "../products/products.h"
#include "arena.h"
#include "products_limits.h"

namespace axtool {
namespace {

constexpr int64_t kEntries = 256, kOne = 1 << 12;  // of the table, and its entry of the largest score
constexpr int kReciprocalBits = 43, kContextBits = 16;
constexpr int64_t kMaskLimit = 32767;
constexpr int64_t kSafePairs = 1024;       // pairs of products of 2^12 by 255 that int32 holds the sum of
constexpr int64_t kScoreBytes = 128 << 10;  // of sums at a time: they stay in the second cache
constexpr int64_t kRowUnit = 12, kMostRows = 48;

int64_t depth_of(const Layer &l) { return l.in.c / l.get("heads"); }
int64_t made_of(const Layer &l) { return l.out.c / l.get("heads"); }

void check(const Layer &l) {
  for (const char *zero : {"zp_q", "zp_k", "zp_s", "zp_m", "zp_v", "out_zp"}) check_int8(l, zero);
  check_scale(l, "m", "f"), check_scale(l, "m_s", "f_s"), check_scale(l, "m_m", "f_m");
  const int64_t heads = l.get("heads"), keys = l.get("keys");
  want(l.in.h == 1 && l.out.h == 1 && l.in.w == l.out.w, "attention: queries and output have other rows or lengths");
  want(heads >= 1 && l.in.c % heads == 0 && l.out.c % heads == 0, "attention: channels do not divide into ", heads,
       " heads");
  want(keys >= 1 && keys <= kMostKeys, "attention.keys is ", keys, ": want 1..2^18");
  want(depth_of(l) <= kMostDepth, "attention: more than 2^15 products in a sum");
  want(keys * std::max(l.in.c, l.out.c) <= kMostOperand, "attention: keys or values of more than 2^28 bytes");
  want(l.get("mask") >= 0 && l.get("mask") <= 2, "attention.mask: want 0..2");
  want(l.get("form") == 0 || l.get("form") == 1, "attention.form: want 0 or 1");
}

void needs(const Layer &l, const Box &t, int64_t, Box *of) {
  const int64_t keys = l.get("keys"), mask = l.get("mask"), depth = depth_of(l), made = made_of(l);
  const int64_t first = t.c / made, heads = ceil_div(t.c + t.n, made) - first;
  of[0] = {0, t.x, first * depth, 1, t.w, heads * depth};
  of[1] = {0, 0, first * depth, 1, keys, heads * depth};
  of[2] = {0, 0, first * made, 1, keys, heads * made};
  if (mask) of[3] = {0, mask == 2 ? t.x : 0, 0, 1, mask == 2 ? t.w : 1, keys};
  of[mask ? 4 : 3] = flat(0, 2 * kEntries);
}

int64_t rows_at_a_time(const Layer &l) {
  const int64_t row = panels_of(l.get("keys")) * kPanel * int64_t(sizeof(int32_t));
  return std::clamp(kScoreBytes / row / kRowUnit * kRowUnit, kRowUnit, kMostRows);
}

struct Buffers {
  int16_t *keys, *values, *query, *exponentials;
  int32_t *sums, *contexts;
  int64_t *totals, *wide;  // wide: contexts of more pairs than int32 holds
  int16_t *mask, *table;
  int8_t *scores;
};

Buffers buffers(const Layer &l, Arena &arena) {
  const int64_t rows = rows_at_a_time(l), keys = l.get("keys"), depth = depth_of(l), made = made_of(l);
  const int64_t wide = panels_of(made) * kPanel;
  Buffers b;
  b.keys = arena.take<int16_t>(packed_shorts(depth, keys));
  b.values = arena.take<int16_t>(packed_shorts(keys, made));
  b.query = arena.take<int16_t>(rows * 2 * pairs_of(depth));
  b.exponentials = arena.take<int16_t>(rows * 2 * pairs_of(keys));
  b.sums = arena.take<int32_t>(rows * panels_of(keys) * kPanel);
  b.contexts = arena.take<int32_t>(rows * wide);
  b.table = arena.take<int16_t>(kEntries);
  b.totals = arena.take<int64_t>(rows);
  b.wide = arena.take<int64_t>(rows * wide);
  b.mask = arena.take<int16_t>(keys);
  b.scores = arena.take<int8_t>(keys);
  return b;
}

size_t scratch(const Call &call) {
  Arena arena;
  buffers(call.layer, arena);
  return arena.used();
}

void read_table(const int8_t *bytes, int16_t *table) {
  for (int64_t i = 0; i < kEntries; ++i) {
    int16_t entry;
    std::memcpy(&entry, bytes + 2 * i, sizeof entry);
    table[i] = entry;
    if (entry < 0 || entry > kOne || (i == 0 && entry != kOne))
      throw std::invalid_argument("attention's table holds " + std::to_string(entry) + " at " + std::to_string(i));
  }
}

// A row of the exponentials of scores with a mask, and their sum.
int64_t masked(const Buffers &b, int64_t keys, int16_t *e) {
  const int8_t *s = b.scores;
  int most = s[0] + b.mask[0];
  for (int64_t j = 1; j < keys; ++j) most = std::max(most, s[j] + b.mask[j]);
  int64_t total = 0;
  for (int64_t j = 0; j < keys; ++j) {
    const int below = most - s[j] - b.mask[j];
    e[j] = below < kEntries ? b.table[below] : int16_t(0);
    total += e[j];
  }
  return total;
}

// The exponentials of `rows` rows times the values: in `wide` where the sum may leave 32 bits.
void weigh(const Call &call, const Buffers &b, int64_t rows, int64_t keys, int64_t made) {
  const int64_t pairs = pairs_of(keys), panels = panels_of(made), width = panels * kPanel;
  const Products &products = products_for(call.isa);
  for (int64_t first = 0; first < pairs; first += kSafePairs) {
    const int64_t some = std::min(kSafePairs, pairs - first);
    products.shorts({rows, panels, some, b.exponentials + 2 * first, 2 * pairs, b.values + first * 2 * kPanel,
                     pairs * 2 * kPanel, b.contexts, width});
    for (int64_t i = 0; i < rows * width; ++i) b.wide[i] = (first ? b.wide[i] : 0) + b.contexts[i];
  }
}

struct Finish {
  int64_t m, f, zp;
};

// Compilers make of products of 64 bits vectors that take longer.
#ifndef __clang__
__attribute__((optimize("no-tree-vectorize")))
#endif
void finish(const Finish &by, int64_t reciprocal, int64_t n, const int64_t *context, int8_t *y) {
  for (int64_t c = 0; c < n; ++c) {
    const int64_t part = context[c] * reciprocal >> (kReciprocalBits - kContextBits);
    y[c] = int8_t(clamp(requantize(part, by.m, by.f) + by.zp, -128, 127));
  }
}

void run(const Call &call) {
  const Layer &l = call.layer;
  const Box &t = call.tile;
  const Source &q = call.reads[0], &k = call.reads[1], &v = call.reads[2];
  const Products &products = products_for(call.isa);
  const int64_t keys = l.get("keys"), depth = depth_of(l), made = made_of(l), masks = l.get("mask");
  const int64_t pairs = pairs_of(depth), width = panels_of(keys) * kPanel, step = rows_at_a_time(l);
  const int zp_q = int(l.get("zp_q"));
  const Requant scoring{int32_t(l.get("m_s")), int32_t(l.get("f_s")), int32_t(l.get("zp_s")), -128, 127};
  const Finish finishing{l.get("m"), l.get("f") + kContextBits, l.get("out_zp")};
  const int64_t zp_m = l.get("zp_m"), m_m = l.get("m_m"), f_m = l.get("f_m");
  Arena arena(call.scratch);
  const Buffers b = buffers(l, arena);
  read_table(call.reads[masks ? 4 : 3].flat(0), b.table);
  auto add_mask = [&](int64_t row) {
    const int8_t *mask = call.reads[3].at(0, row, 0);
    for (int64_t j = 0; j < keys; ++j)
      b.mask[j] = int16_t(clamp(requantize(mask[j] - zp_m, m_m, f_m), -kMaskLimit, kMaskLimit));
  };
  if (masks == 1) add_mask(0);
  for (int64_t head = t.c / made; head * made < t.c + t.n; ++head) {
    const int64_t first = std::max(head * made, t.c), end = std::min((head + 1) * made, t.c + t.n);
    pack_shorts(k.at(0, 0, head * depth), depth, keys, 1, k.pixel, int(l.get("zp_k")), b.keys);
    pack_shorts(v.at(0, 0, head * made), keys, made, v.pixel, 1, int(l.get("zp_v")), b.values);
    for (int64_t x = t.x; x < t.x + t.w; x += step) {
      const int64_t rows = std::min(step, t.x + t.w - x);
      for (int64_t r = 0; r < rows; ++r) {
        const int8_t *a = q.at(0, x + r, head * depth);
        int16_t *row = b.query + r * 2 * pairs;
        for (int64_t i = 0; i < depth; ++i) row[i] = int16_t(a[i] - zp_q);
        if (depth % 2) row[depth] = 0;
      }
      products.shorts({rows, panels_of(keys), pairs, b.query, 2 * pairs, b.keys, pairs * 2 * kPanel, b.sums, width});
      for (int64_t r = 0; r < rows; ++r) {
        call.loops.requantize(scoring, keys, b.sums + r * width, b.scores);
        if (masks == 2) add_mask(x + r);
        int16_t *e = b.exponentials + r * 2 * pairs_of(keys);
        b.totals[r] = masks ? masked(b, keys, e) : products.exponentials(b.scores, keys, b.table, e);
        if (keys % 2) e[keys] = 0;
      }
      weigh(call, b, rows, keys, made);
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t reciprocal = (int64_t(1) << kReciprocalBits) / b.totals[r];
        const int64_t *context = b.wide + r * panels_of(made) * kPanel + first - head * made;
        finish(finishing, reciprocal, end - first, context, call.write.at(0, x + r, first));
      }
    }
  }
}

}  // namespace

const OpInfo attention_op = {4, check, needs, scratch, run, false};

}  // namespace axtool
