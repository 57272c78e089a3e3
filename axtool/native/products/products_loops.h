// The loops of Products over the vectors of an instruction set: V::Shorts and V::Floats give the types and steps of both.
#pragma once
#include <cstring>

#include "products.h"

namespace axtool {

// One load for the score and one for its entry: gathers, which a compiler may make of it, take longer.
#ifdef __clang__
#define AXTOOL_BY_ONES
#else
#define AXTOOL_BY_ONES __attribute__((optimize("no-tree-vectorize")))
#endif
AXTOOL_BY_ONES inline void look_up(const int8_t *scores, int64_t n, const int16_t *from, int16_t *e) {
  for (int64_t j = 0; j < n; ++j) e[j] = from[-scores[j]];
}

// `R` rows of one panel, all of the depth: sums stay in registers.
template <class V, int R, class Task>
void panel_rows(const Task &t, int64_t row, int64_t panel, int64_t depth, int64_t a_step) {
  typename V::Sum sums[R][V::kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 16
    for (int v = 0; v < V::kVectors; ++v) sums[r][v] = V::zero();
  const auto *b = t.b + panel * t.b_panel;
  const auto *a = t.a + row * t.a_row;
  for (int64_t k = 0; k < depth; ++k, b += a_step * kPanel) {
    typename V::Right right[V::kVectors];
#pragma GCC unroll 16
    for (int v = 0; v < V::kVectors; ++v) right[v] = V::load(b, v);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const auto left = V::spread(a + r * t.a_row + k * a_step);
#pragma GCC unroll 16
      for (int v = 0; v < V::kVectors; ++v) sums[r][v] = V::add(sums[r][v], left, right[v]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 16
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

// e[j] = table[largest of the scores - scores[j]]; returns their sum.
template <class>
int64_t row_exponentials(const int8_t *scores, int64_t n, const int16_t *table, int16_t *e) {
  int8_t most = -128;
  for (int64_t j = 0; j < n; ++j) most = scores[j] > most ? scores[j] : most;
  look_up(scores, n, table + most, e);
  int32_t total = 0;  // of at most 2^18 entries of 2^12
  for (int64_t j = 0; j < n; ++j) total += e[j];
  return total;
}

inline int32_t pair_at(const int16_t *a) {
  int32_t both;
  std::memcpy(&both, a, 4);
  return both;
}

}  // namespace axtool
