// softmax, layer_norm: all channels of a pixel -> each of them.
#include <algorithm>

#include "../fixed_math.h"
#include "../norms/norms.h"
#include "../ops.h"

namespace axtool {
namespace {

constexpr int64_t kMostRow = 1 << 16;  // channels
constexpr int64_t kExpEntries = 256, kExpBits = 12, kPairBytes = 8;
constexpr int64_t kLogRoot = 1;  // of a layer_norm's form
constexpr int kSquareShift = 7, kNormalBits = 30, kRootScale = 52;
constexpr int64_t kMostExponent = 1 << 12;
constexpr int64_t kTableRow = 64;  // channels from which on a row's results are put into a table

void check_row(const Layer &layer, int64_t forms) {
  check_same_dims(layer);
  check_limits(layer), check_int8(layer, "out_zp");
  want(layer.in.c <= kMostRow, layer.name(), ": ", layer.in.c, " channels, want at most ", kMostRow);
  const int64_t form = layer.get("form");
  want(form >= 0 && form < forms, layer.name(), ".form is ", form, ": want 0..", forms - 1);
}

Box all_channels(const Layer &layer, Box tile) { return tile.c = 0, tile.n = layer.in.c, tile; }

size_t no_scratch(const Call &) { return 0; }

// ---- softmax ---------------------------------------------------------------------------------------------------------

void check_softmax(const Layer &layer) {
  check_row(layer, 2);
  check_scale(layer, "m", "f");
}

void needs_softmax(const Layer &layer, const Box &tile, int64_t, Box *of) {
  of[0] = all_channels(layer, tile), of[1] = flat(0, kExpEntries * 2);
}

struct Quotient {
  int64_t m, shift, zp, lo, hi;

  int8_t of(int64_t e, int64_t inverse) const {
    return int8_t(clamp(((e * inverse + (int64_t(1) << (shift - 1))) >> shift) + zp, lo, hi));
  }
};

// `at` is the table's entry of the row's maximum: that of x is at[-x].
uint32_t sum_of(int64_t n, const int8_t *x, const uint16_t *at) {
  uint32_t sums[4] = {};
  int64_t i = 0;
  for (; i + 4 <= n; i += 4)
    for (int k = 0; k < 4; ++k) sums[k] += at[-x[i + k]];
  for (; i < n; ++i) sums[0] += at[-x[i]];
  return sums[0] + sums[1] + sums[2] + sums[3];
}

void softmax(const Call &call) {
  const Layer &l = call.layer;
  const Box &t = call.tile;
  const Quotient quotient{l.get("m"), l.get("f") + kExpBits, l.get("out_zp"), l.get("lo"), l.get("hi")};
  const uint16_t *table = reinterpret_cast<const uint16_t *>(call.reads[1].flat(0));
  const NormLoops &loops = norm_loops_for(call.isa);
  for (int64_t y = t.y; y < t.y + t.h; ++y)
    for (int64_t x = t.x; x < t.x + t.w; ++x) {
      const int8_t *row = call.reads[0].at(y, x, 0);
      int8_t *out = call.write.at(y, x, t.c);
      Moments m;
      loops.moments(l.in.c, row, &m);
      const uint16_t *at = table + m.high;
      const int64_t inverse = (quotient.m << kExpBits) / std::max<int64_t>(sum_of(l.in.c, row, at), 1);
      if (t.n < kTableRow) {
        for (int64_t c = 0; c < t.n; ++c) out[c] = quotient.of(at[-row[t.c + c]], inverse);
        continue;
      }
      int8_t results[256];
      for (int32_t q = m.low; q <= m.high; ++q) results[q + 128] = quotient.of(at[-q], inverse);
      for (int32_t q = -128; q < m.low; ++q) results[q + 128] = 0;
      for (int32_t q = m.high + 1; q < 128; ++q) results[q + 128] = 0;
      call.loops.lut(results, 1, t.n, row + t.c, t.n, out, t.n);
    }
}

// ---- layer_norm ------------------------------------------------------------------------------------------------------

void check_layer_norm(const Layer &layer) {
  check_row(layer, 4);
  want(layer.get("f") >= 0 && layer.get("f") <= 29, "layer_norm.f is ", layer.get("f"), ": want 0..29");
  const int64_t m = layer.get("eps_m"), e = layer.get("eps_e");
  want(m == 0 || (m >= int64_t(1) << 30 && e >= -kMostExponent && e <= kMostExponent), "layer_norm.eps_m is ", m,
       ", eps_e ", e, ": want a number of 31 bits and its exponent");
}

void needs_layer_norm(const Layer &layer, const Box &tile, int64_t, Box *of) {
  of[0] = all_channels(layer, tile), of[1] = flat(tile.c * kPairBytes, tile.n * kPairBytes);
}

// eps_m * 2^(eps_e + 2 (up - 7)), at most 2^62
int64_t epsilon_of(const Layer &l, int64_t up) {
  const int64_t m = l.get("eps_m"), shift = l.get("eps_e") + 2 * (up - kSquareShift);
  if (shift > 31) return m ? int64_t(1) << 62 : 0;
  return shift >= 0 ? m << shift : m >> std::min<int64_t>(-shift, 63);
}

// So far deviations may be moved to the left that epsilon has 62 bits.
int64_t most_up(const Layer &l) { return kSquareShift + floor_div(31 - l.get("eps_e"), 2); }

// The sum of squares of ((x * count - sum) << up) >> 7.
int64_t squares_of(const Moments &m, const NormRow &r, int64_t n, const int8_t *x) {
  if (r.up >= kSquareShift) {  // no bit is lost: the squares' sum follows from the moments
    const int64_t spread = n * (n * m.squares - int64_t(m.sum) * m.sum);
    return spread << 2 * (r.up - kSquareShift);
  }
  int64_t total = 0;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t d = (int64_t(x[i]) * r.count - r.sum) * (int64_t(1) << r.up) >> kSquareShift;
    total += d * d;
  }
  return total;
}

// A root and a division for each number.
void divide(const NormRow &r, int64_t sigma, int64_t n, const int8_t *x, const int32_t *pairs, int8_t *y) {
  for (int64_t i = 0; i < n; ++i) {
    const int64_t d = (int64_t(x[i]) * r.count - r.sum) * (int64_t(1) << r.up);
    const int64_t t = floor_div(d * (int64_t(1) << 24) + sigma, 2 * sigma);
    const int64_t v = ((t * pairs[2 * i] + (int64_t(1) << 29)) >> kNormalBits) + pairs[2 * i + 1];
    y[i] = int8_t(clamp(((v + ((int64_t(1) << r.f) >> 1)) >> r.f) + r.zp, r.lo, r.hi));
  }
}

void layer_norm(const Call &call) {
  const Layer &l = call.layer;
  const Box &t = call.tile;
  const int64_t n = l.in.c;
  const bool logarithm = l.get("form") & kLogRoot;
  NormRow r{int32_t(n), 0, 0, 0, int32_t(l.get("f")), int32_t(l.get("out_zp")), int32_t(l.get("lo")), int32_t(l.get("hi"))};
  const int32_t *pairs = reinterpret_cast<const int32_t *>(call.reads[1].flat(t.c * kPairBytes));
  const NormLoops &loops = norm_loops_for(call.isa);
  for (int64_t y = t.y; y < t.y + t.h; ++y)
    for (int64_t x = t.x; x < t.x + t.w; ++x) {
      const int8_t *row = call.reads[0].at(y, x, 0);
      int8_t *out = call.write.at(y, x, t.c);
      Moments m;
      loops.moments(n, row, &m);
      const int64_t most = std::max<int64_t>(n * m.high - m.sum, m.sum - n * m.low);
      r.sum = m.sum, r.up = kNormalBits - bit_length(uint64_t(most)), r.inverse = 0;
      if (l.get("eps_m")) r.up = int32_t(std::min<int64_t>(r.up, std::max<int64_t>(most_up(l), 0)));
      if (most == 0) r.up = 0;  // every number is the mean: inverse 0 makes it the offset
      const int64_t v = most ? squares_of(m, r, n, row) + epsilon_of(l, r.up) : 0;
      if (most && !logarithm) {
        divide(r, root(v), t.n, row + t.c, pairs, out);
        continue;
      }
      if (most) r.inverse = int32_t(inverse_root(v, kRootScale));
      loops.normalize(r, t.n, row + t.c, pairs, out);
    }
}

}  // namespace

const OpInfo softmax_op = {2, check_softmax, needs_softmax, no_scratch, softmax, true};
const OpInfo layer_norm_op = {2, check_layer_norm, needs_layer_norm, no_scratch, layer_norm, true};

}  // namespace axtool
