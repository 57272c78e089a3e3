// Rules of rows whose numbers are fx32 or fp16: sizes, shifts that 64 bits bear, bounds.
#pragma once
#include <algorithm>
#include <initializer_list>

#include "../ops.h"

namespace axtool {

constexpr int64_t kMostLeft = -30, kMostRight = 62;  // shifts, see fx_shifted

inline void check_field(const Layer &layer, const char *field, int64_t least, int64_t most) {
  const int64_t v = layer.get(field);
  want(v >= least && v <= most, layer.name(), ".", field, " is ", v, ": want ", least, "..", most);
}

inline void check_size(const Layer &layer, const char *field, std::initializer_list<int64_t> sizes) {
  const int64_t v = layer.get(field);
  want(std::find(sizes.begin(), sizes.end(), v) != sizes.end(), layer.name(), ".", field, " is ", v,
       ", no size of such a number");
}

// Of rows whose sizes are right.
inline void check_whole_numbers(const Layer &layer) {
  want(layer.in.c % number_bytes(layer, 0) == 0 && layer.out.c % number_bytes(layer, -1) == 0, layer.name(),
       ": channels do not divide into numbers");
}

inline void check_bounds(const Layer &layer) {
  const int64_t half = int64_t(1) << (8 * layer.get("out_bytes") - 1);
  check_field(layer, "lo", -half, half - 1), check_field(layer, "hi", layer.get("lo"), half - 1);
}

}  // namespace axtool
