// arg_max: all channels of a pixel -> the largest's number.
#include <algorithm>
#include <cstring>

#include "../norms/norms.h"
#include "../ops.h"

namespace axtool {
namespace {

constexpr int64_t kLabelBytes = 4;

Dims numbers_in(const Layer &layer) { return {layer.in.h, layer.in.w, layer.in.c / layer.get("x_bytes")}; }

void check(const Layer &layer) {
  const int64_t bytes = layer.get("x_bytes"), flat = layer.get("flat"), last = layer.get("last");
  want(bytes == 1 || bytes == 2 || bytes == 4, "arg_max.x_bytes is ", bytes, ": want 1, 2 or 4");
  want(layer.get("out_bytes") == kLabelBytes, "arg_max.out_bytes is ", layer.get("out_bytes"), ": want 4");
  want(layer.in.c % bytes == 0, "arg_max: channels do not divide into numbers of ", bytes, " bytes");
  want((flat == 0 || flat == 1) && (last == 0 || last == 1), "arg_max.flat ", flat, ", last ", last, ": want 0 or 1");
  const Dims out = flat ? Dims{1, layer.in.h, layer.in.w * kLabelBytes} : Dims{layer.in.h, layer.in.w, kLabelBytes};
  want(out.h == layer.out.h && out.w == layer.out.w && out.c == layer.out.c,
       "arg_max: the output does not have a number for each pixel");
}

// The pixels of a box of the output, in numbers.
Box pixels_of(const Layer &layer, const Box &t) {
  if (layer.get("flat")) return {t.x, t.c, 0, t.w, t.n, layer.in.c};
  return {t.y, t.x, 0, t.h, t.w, layer.in.c};
}

void needs(const Layer &layer, const Box &tile, int64_t, Box *of) { of[0] = pixels_of(layer, in_numbers(layer, tile)); }
size_t no_scratch(const Call &) { return 0; }

template <class Number>
int32_t largest(const int8_t *x, int64_t n, bool last) {
  const Number *numbers = reinterpret_cast<const Number *>(x);
  int64_t best = 0;
  for (int64_t i = 1; i < n; ++i)
    if (last ? numbers[i] >= numbers[best] : numbers[i] > numbers[best]) best = i;
  return int32_t(best);
}

void arg_max(const Call &call) {
  const Layer &l = call.layer;
  const bool flat = l.get("flat"), last = l.get("last");
  const int64_t bytes = l.get("x_bytes"), n = numbers_in(l).c;
  const Box from = pixels_of(l, in_numbers(l, call.tile));
  const NormLoops &loops = norm_loops_for(call.isa);
  for (int64_t y = from.y; y < from.y + from.h; ++y)
    for (int64_t x = from.x; x < from.x + from.w; ++x) {
      const int8_t *p = call.reads[0].at(y, x, 0);
      const int32_t label = bytes == 1   ? (last ? largest<int8_t>(p, n, true) : loops.largest(n, p))
                            : bytes == 2 ? largest<int16_t>(p, n, last)
                                         : largest<int32_t>(p, n, last);
      std::memcpy(flat ? call.write.at(0, y, x * kLabelBytes) : call.write.at(y, x, 0), &label, kLabelBytes);
    }
}

}  // namespace

const OpInfo arg_max_op = {1, check, needs, no_scratch, arg_max, false};

}  // namespace axtool
