// Operands whose rows, columns or channels may be single: what add and mul share with their wide forms.
#pragma once
#include "../ops.h"

namespace axtool {

inline Dims operand_dims(const Layer &layer, const char *field) {
  return {layer.get(field, 0), layer.get(field, 1), layer.get(field, 2)};
}

// `out`: the output's dims, in what a and b are counted in.
inline void check_operands(const Layer &layer, const Dims &out) {
  const Dims a = operand_dims(layer, "a"), b = operand_dims(layer, "b");
  auto fits = [](int64_t x, int64_t y, int64_t size) { return (x == size && (y == size || y == 1)) || (x == 1 && y == size); };
  want(fits(a.h, b.h, out.h) && fits(a.w, b.w, out.w) && fits(a.c, b.c, out.c),
       std::string(layer.name()) + ": a and b do not broadcast to the output");
}

inline Box operand_box(const Dims &d, const Box &tile) {
  Box b = tile;
  if (d.h == 1) b.y = 0, b.h = 1;
  if (d.w == 1) b.x = 0, b.w = 1;
  if (d.c == 1) b.c = 0, b.n = 1;
  return b;
}

}  // namespace axtool
