// The loops of Products over the vectors of an instruction set: V::Shorts and V::Floats give the types and steps of both.
#pragma once
#include <cstring>

#include "products.h"

namespace axtool {

// `R` rows of one panel, all of the depth: sums stay in registers.
template <class V, int R, class Task>
void panel_rows(const Task &t, int64_t row, int64_t panel, int64_t depth, int64_t a_step) {
  typename V::Sum sums[R][V::kVectors];
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < V::kVectors; ++v) sums[r][v] = V::zero();
  const auto *b = t.b + panel * t.b_panel;
  const auto *a = t.a + row * t.a_row;
  for (int64_t k = 0; k < depth; ++k, b += a_step * kPanel) {
    typename V::Right right[V::kVectors];
    for (int v = 0; v < V::kVectors; ++v) right[v] = V::load(b, v);
    for (int r = 0; r < R; ++r) {
      const auto left = V::spread(a + r * t.a_row + k * a_step);
      for (int v = 0; v < V::kVectors; ++v) sums[r][v] = V::add(sums[r][v], left, right[v]);
    }
  }
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < V::kVectors; ++v) V::store(t.sums + (row + r) * t.sums_row + panel * kPanel, v, sums[r][v]);
}

// The rows that are left over, fewer than V::kRows.
template <class V, int R, class Task>
void last_rows(const Task &t, int64_t row, int64_t left, int64_t panel, int64_t depth, int64_t a_step) {
  if constexpr (R > 0) {
    if (left == R) return panel_rows<V, R>(t, row, panel, depth, a_step);
    last_rows<V, R - 1>(t, row, left, panel, depth, a_step);
  }
}

// A panel at a time, which stays in the nearest cache for all rows.
template <class V, class Task>
void all_panels(const Task &t, int64_t depth, int64_t a_step) {
  for (int64_t panel = 0; panel < t.panels; ++panel) {
    int64_t row = 0;
    for (; row + V::kRows <= t.rows; row += V::kRows) panel_rows<V, V::kRows>(t, row, panel, depth, a_step);
    last_rows<V, V::kRows - 1>(t, row, t.rows - row, panel, depth, a_step);
  }
}

template <class V>
void all_shorts(const Shorts &t) { all_panels<V>(t, t.pairs, 2); }
template <class V>
void all_floats(const Floats &t) { all_panels<V>(t, t.depth, 1); }

inline int32_t pair_at(const int16_t *a) {
  int32_t both;
  std::memcpy(&both, a, 4);
  return both;
}

}  // namespace axtool
