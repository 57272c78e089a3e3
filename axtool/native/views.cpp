#include "views.h"

#include <algorithm>

namespace axtool {

bool contains(const Box &outer, const Box &inner) {
  return inner.y >= outer.y && inner.y + inner.h <= outer.y + outer.h && inner.x >= outer.x &&
         inner.x + inner.w <= outer.x + outer.w && inner.c >= outer.c && inner.c + inner.n <= outer.c + outer.n;
}

Box intersection(const Box &a, const Box &b) {
  Box r{std::max(a.y, b.y), std::max(a.x, b.x), std::max(a.c, b.c), 0, 0, 0};
  r.h = std::min(a.y + a.h, b.y + b.h) - r.y;
  r.w = std::min(a.x + a.w, b.x + b.w) - r.x;
  r.n = std::min(a.c + a.n, b.c + b.n) - r.c;
  return r;
}

Box hull(const Box &a, const Box &b) {
  Box r{std::min(a.y, b.y), std::min(a.x, b.x), std::min(a.c, b.c), 0, 0, 0};
  r.h = std::max(a.y + a.h, b.y + b.h) - r.y;
  r.w = std::max(a.x + a.w, b.x + b.w) - r.x;
  r.n = std::max(a.c + a.n, b.c + b.n) - r.c;
  return r;
}

bool unites_to_box(const Box &a, const Box &b) {
  const bool y = a.y == b.y && a.h == b.h, x = a.x == b.x && a.w == b.w, c = a.c == b.c && a.n == b.n;
  if (x && c) return a.y + a.h == b.y || b.y + b.h == a.y;
  if (y && c) return a.x + a.w == b.x || b.x + b.w == a.x;
  if (y && x) return a.c + a.n == b.c || b.c + b.n == a.c;
  return false;
}

bool same_origin(const View &a, const View &b) {
  return a.memory == b.memory && a.row == b.row && a.pixel == b.pixel && a.at(0, 0, 0) == b.at(0, 0, 0);
}

View part_of(const View &view, const Box &box) {
  return {view.memory, view.at(box.y, box.x, box.c), box, view.row, view.pixel};
}

bool dense(const View &v) {
  const bool pixels = v.box.w == 1 || v.pixel == v.box.n;
  return pixels && (v.box.h == 1 || v.row == (v.box.w - 1) * v.pixel + v.box.n);
}

bool elements_disjoint(const View &v) {
  if (v.box.w > 1 && v.pixel < v.box.n) return false;
  return v.box.h == 1 || v.row >= (v.box.w - 1) * v.pixel + v.box.n;
}

// Two views whose rows are whole numbers of the same pixel: their bytes meet only if their channels do.
static bool channels_apart(const View &a, const View &b) {
  const int64_t pixel = a.pixel;
  if (pixel <= 0 || b.pixel != pixel) return false;
  if ((a.box.h > 1 && a.row % pixel) || (b.box.h > 1 && b.row % pixel)) return false;
  const int64_t first_a = a.offset % pixel, first_b = b.offset % pixel;
  if (first_a + a.box.n > pixel || first_b + b.box.n > pixel) return false;  // a pixel that crosses the lattice
  return first_a + a.box.n <= first_b || first_b + b.box.n <= first_a;
}

bool overlaps(const View &a, const View &b) {
  if (a.memory != b.memory || a.end() <= b.offset || b.end() <= a.offset) return false;
  if (same_origin(a, b) && a.pixel > 0 && elements_disjoint({a.memory, 0, hull(a.box, b.box), a.row, a.pixel}))
    return !empty(intersection(a.box, b.box));
  return !channels_apart(a, b);
}

bool covers(const View &outer, const View &inner) {
  if (outer.memory != inner.memory || inner.offset < outer.offset || inner.end() > outer.end()) return false;
  if (dense(outer)) return true;
  return same_origin(outer, inner) && contains(outer.box, inner.box);
}

std::string to_string(const Box &b) {
  auto span = [](int64_t first, int64_t count) { return std::to_string(first) + ":" + std::to_string(first + count); };
  return "[" + span(b.y, b.h) + ", " + span(b.x, b.w) + ", " + span(b.c, b.n) + "]";
}

}  // namespace axtool
