// fx_softmax, fx_layer_norm: all channels of a pixel -> each of them, in numbers of 32 bits.
#include <algorithm>

#include "../fixed_math.h"
#include "../norms/norms.h"
#include "../ops.h"

namespace axtool {
namespace {

constexpr int64_t kMostRow = 1 << 16;  // channels
constexpr int64_t kBytes = 4, kPairBytes = 8, kMostExponent = 1 << 12, kMostShift = 62;
constexpr int64_t kLogRoot = 1;  // of a layer_norm's form
constexpr int64_t kLog2E = 1549082005;  // log2(e) with 30 fraction bits
constexpr int kNormalBits = 30, kSquareShift = 7, kRootScale = 52, kInverseBits = 61, kLeastUp = -32;

void check_row(const Layer &layer, int64_t forms) {
  check_same_dims(layer);
  want(layer.get("x_bytes") == kBytes && layer.get("out_bytes") == kBytes, layer.name(), ": want numbers of 4 bytes");
  want(layer.in.c % kBytes == 0, layer.name(), ": channels do not divide into numbers of 4 bytes");
  want(layer.in.c / kBytes <= kMostRow, layer.name(), ": ", layer.in.c / kBytes, " channels, want at most ", kMostRow);
  const int64_t form = layer.get("form");
  want(form >= 0 && form < forms, layer.name(), ".form is ", form, ": want 0..", forms - 1);
}

Box all_channels(const Layer &layer, Box tile) { return tile.c = 0, tile.n = layer.in.c, tile; }
const int32_t *numbers(const int8_t *p) { return reinterpret_cast<const int32_t *>(p); }
size_t scratch_of_row(const Call &call) { return size_t(2 * call.layer.in.c); }  // of softmax: 64 bits a number

// ---- softmax ---------------------------------------------------------------------------------------------------------

void check_softmax(const Layer &layer) {
  check_row(layer, 2);
  for (const char *field : {"f_x", "f"})
    want(layer.get(field) >= 0 && layer.get(field) <= 31, "fx_softmax.", field, " is ", layer.get(field), ": want 0..31");
}

void needs_softmax(const Layer &layer, const Box &tile, int64_t, Box *of) { of[0] = all_channels(layer, tile); }

void softmax(const Call &call) {
  const Layer &l = call.layer;
  const Box t = call.tile;
  const int64_t n = l.in.c / kBytes, first = t.c / kBytes, count = t.n / kBytes, f = l.get("f");
  const int64_t down = l.get("f_x") + 30 - kLogBits;
  const bool iterated = l.get("form") == 0;
  int64_t *e = static_cast<int64_t *>(call.scratch);
  for (int64_t y = t.y; y < t.y + t.h; ++y)
    for (int64_t x = t.x; x < t.x + t.w; ++x) {
      const int32_t *row = numbers(call.reads[0].at(y, x, 0));
      const int64_t most = *std::max_element(row, row + n);
      int64_t total = 0;
      for (int64_t i = 0; i < n; ++i) total += e[i] = negative_power((most - row[i]) * kLog2E >> down, iterated);
      const int64_t narrowed = bit_length(uint64_t(total)) - (kPowerBits + 1);
      const int64_t inverse = (int64_t(1) << kInverseBits) / (total >> narrowed);
      const int64_t shift = std::min<int64_t>(kInverseBits + narrowed - f, 63);
      int32_t *out = reinterpret_cast<int32_t *>(call.write.at(y, x, t.c));
      for (int64_t i = 0; i < count; ++i)
        out[i] = int32_t(std::min<int64_t>((e[first + i] * inverse + (int64_t(1) << (shift - 1))) >> shift, INT32_MAX));
    }
}

// ---- layer_norm ------------------------------------------------------------------------------------------------------

void check_layer_norm(const Layer &layer) {
  check_row(layer, 4);
  const int64_t shift = layer.get("shift"), m = layer.get("eps_m"), e = layer.get("eps_e");
  want(shift >= 0 && shift <= kMostShift, "fx_layer_norm.shift is ", shift, ": want 0..", kMostShift);
  want(m == 0 || (m >= int64_t(1) << 30 && e >= -kMostExponent && e <= kMostExponent), "fx_layer_norm.eps_m is ", m,
       ", eps_e ", e, ": want a number of 31 bits and its exponent");
}

void needs_layer_norm(const Layer &layer, const Box &tile, int64_t, Box *of) {
  of[0] = all_channels(layer, tile);
  of[1] = flat(tile.c / kBytes * kPairBytes, tile.n / kBytes * kPairBytes);
}

// eps_m * 2^(eps_e + 2 (up - 7)), at most 2^62
int64_t epsilon_of(int64_t m, int64_t e, int64_t up) {
  const int64_t shift = e + 2 * (up - kSquareShift);
  if (shift > 31) return m ? int64_t(1) << 62 : 0;
  return shift >= 0 ? m << shift : m >> std::min<int64_t>(-shift, 63);
}

// A root and a division for each number.
void divide(const FxNormRow &r, int64_t sigma, int64_t n, const int32_t *x, const int32_t *pairs, int32_t *y) {
  for (int64_t i = 0; i < n; ++i) {
    const int64_t t = floor_div(fx_deviation(r, x[i]) * (int64_t(1) << 24) + sigma, 2 * sigma);
    y[i] = fx_finished(r, t, pairs + 2 * i);
  }
}

void layer_norm(const Call &call) {
  const Layer &l = call.layer;
  const Box &t = call.tile;
  const int64_t n = l.in.c / kBytes, first = t.c / kBytes, count = t.n / kBytes;
  const int64_t eps_m = l.get("eps_m"), eps_e = l.get("eps_e");
  const bool logarithm = l.get("form") & kLogRoot;
  const int64_t most_up = eps_m ? std::max<int64_t>(kSquareShift + floor_div(31 - eps_e, 2), kLeastUp) : kNormalBits;
  const int32_t *pairs = numbers(call.reads[1].flat(first * kPairBytes));
  const NormLoops &loops = norm_loops_for(call.isa);
  for (int64_t y = t.y; y < t.y + t.h; ++y)
    for (int64_t x = t.x; x < t.x + t.w; ++x) {
      const int32_t *row = numbers(call.reads[0].at(y, x, 0));
      int32_t *out = reinterpret_cast<int32_t *>(call.write.at(y, x, t.c));
      FxMoments m;
      loops.fx_moments(n, row, &m);
      const int64_t most = std::max<int64_t>(n * m.high - m.sum, m.sum - n * m.low);
      FxNormRow r{n, m.sum, 0, 0, int32_t(l.get("shift"))};
      // where every number is the mean, the inverse 0 makes them the offsets
      r.up = most ? int32_t(std::min<int64_t>(kNormalBits - bit_length(uint64_t(most)), most_up)) : 0;
      if (most == 0) {
        loops.fx_normalize(r, count, row + first, pairs, out);
        continue;
      }
      const int64_t v = loops.fx_squares(r, n, row) + epsilon_of(eps_m, eps_e, r.up);
      if (!logarithm) {
        divide(r, root(v), count, row + first, pairs, out);
        continue;
      }
      r.inverse = int32_t(inverse_root(v, kRootScale));
      loops.fx_normalize(r, count, row + first, pairs, out);
    }
}

}  // namespace

const OpInfo fx_softmax_op = {1, check_softmax, needs_softmax, scratch_of_row, softmax, true};
const OpInfo fx_layer_norm_op = {2, check_layer_norm, needs_layer_norm, [](const Call &) { return size_t(0); }, layer_norm, true};

}  // namespace axtool
