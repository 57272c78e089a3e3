// The inner loops of least_squares.h, compiled once for each instruction set; everything is in an anonymous namespace.
// No sum is taken apart: vectors hold neighbouring elements, each with its own sum.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "least_squares.h"

namespace axtool {
namespace {

template <class Number>
struct Packed {
  static constexpr int kLanes = 32 / sizeof(Number);
  typedef Number Vector __attribute__((vector_size(32)));
  static void load(const Number *p, Vector &v) { std::memcpy(&v, p, sizeof v); }
  static void store(Number *p, const Vector &v) { std::memcpy(p, &v, sizeof v); }
};
using Doubles = Packed<double>;
using Floats = Packed<float>;

// c[r][i] += sign * a[j][r] * b[j][i] for j = 0, 1, ...: kRows rows of c, 2 vectors of columns.
constexpr int kRows = 4;
template <class Number, int sign>
void add_products(int64_t count, const Number *a, int64_t a_step, const Number *b, int64_t b_step, Number *c,
                  int64_t c_step) {
  using P = Packed<Number>;
  typename P::Vector sums[kRows][2];
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < 2; ++v) P::load(c + r * c_step + v * P::kLanes, sums[r][v]);
  for (int64_t j = 0; j < count; ++j, a += a_step, b += b_step) {
    typename P::Vector left, right;
    P::load(b, left), P::load(b + P::kLanes, right);
    for (int r = 0; r < kRows; ++r) {
      const typename P::Vector factor = a[r] - typename P::Vector{};
      if (sign > 0) sums[r][0] += factor * left, sums[r][1] += factor * right;
      else sums[r][0] -= factor * left, sums[r][1] -= factor * right;
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < 2; ++v) P::store(c + r * c_step + v * P::kLanes, sums[r][v]);
}

int64_t padded(int64_t size, int64_t to) { return (size + to - 1) / to * to; }

// ---- H = M D M' ------------------------------------------------------------------------------------------------------

constexpr int64_t kPanel = 32;    // rows whose products are added together
constexpr int64_t kColumns = 64;  // of the panel, in the first cache
constexpr int64_t kWidth = 2 * Doubles::kLanes;

// h: the upper triangle, rows `step` apart, a multiple of kWidth. Row j of it becomes column j of M.
struct Factors {
  const int64_t k, step;
  std::vector<double> h, pivots, factors, packed, columns;

  explicit Factors(int64_t size)
      : k(size), step(padded(size, kWidth)), h(size_t((padded(size, kRows) + kRows) * step)), pivots(size_t(size)),
        factors(size_t(kPanel * step)), packed(factors.size()), columns(size_t(kPanel * kColumns)) {}

  double *row(int64_t j) { return h.data() + j * step; }

  bool factorize() {
    for (int64_t first = 0; first < k; first += kPanel) {
      const int64_t end = std::min(first + kPanel, k);
      for (int64_t j = first; j < end; ++j)
        if (!eliminate(j, end, factors.data() + (j - first) * step)) return false;
      add_panel(first, end);
      for (int64_t j = first; j < end; ++j)
        std::copy(&factors[size_t((j - first) * step + j + 1)], &factors[size_t((j - first) * step)] + k, row(j) + j + 1);
    }
    return true;
  }

  // Row j -> its factors, and off the rows of the panel below it.
  bool eliminate(int64_t j, int64_t end, double *factor) {
    const double *now = row(j), pivot = now[j];
    if (!(pivot > 0)) return false;
    pivots[size_t(j)] = pivot;
    for (int64_t i = j + 1; i < step; ++i) factor[i] = now[i] / pivot;
    for (int64_t l = j + 1; l < end; ++l) {
      double *below = row(l);
      for (int64_t i = l; i < step; ++i) below[i] -= factor[l] * now[i];
    }
    return true;
  }

  // Off all rows below the panel. What is left of the diagonal means nothing. Copies, for rows that are a power of two
  // apart would share few places of a cache.
  void add_panel(int64_t first, int64_t end) {
    const int64_t rows = end - first;
    for (int64_t l = end; l < k; l += kRows)
      for (int64_t j = 0; j < rows; ++j)
        std::copy(&factors[size_t(j * step + l)], &factors[size_t(j * step + l)] + kRows,
                  &packed[size_t(((l - end) / kRows * kPanel + j) * kRows)]);
    for (int64_t left = end / kWidth * kWidth; left < step; left += kColumns) {
      const int64_t last = std::min(left + kColumns, step);
      for (int64_t j = 0; j < rows; ++j) std::copy(row(first + j) + left, row(first + j) + last, &columns[size_t(j * kColumns)]);
      for (int64_t l = end; l < std::min(last, k); l += kRows)
        for (int64_t i = std::max(left, l / kWidth * kWidth); i < last; i += kWidth)
          add_products<double, -1>(rows, &packed[size_t((l - end) * kPanel)], kRows, &columns[size_t(i - left)], kColumns,
                                   row(l) + i, step);
    }
  }
};

// ---- the weights, one after the other --------------------------------------------------------------------------------

// Arrays [chunk][k][kWidth] of rows of weights, in order; those of errors first for the rounded, then for the nearest.
struct Rows {
  const int64_t k, chunks;
  std::vector<double> real, nearest, steps, errors, total, square, factors;

  Rows(int64_t length, int64_t rows)
      : k(length), chunks(padded(rows, kWidth) / kWidth), real(size_t(chunks * k * kWidth)), nearest(real.size()),
        steps(real.size()), errors(2 * real.size()), total(size_t(2 * chunks * kWidth)), square(total.size()),
        factors(size_t(k * kRows)) {}

  // kRows weights at a time: what all later ones lost of them, then those among themselves.
  void round(Factors &m, double limit) {
    std::fill(total.begin(), total.end(), 0.0), std::fill(square.begin(), square.end(), 0.0);
    for (int64_t first = (k - 1) / kRows * kRows; first >= 0; first -= kRows) {
      const int64_t end = std::min(first + kRows, k);
      for (int64_t i = end; i < k; ++i)
        for (int64_t r = 0; r < kRows && first + r < k; ++r) factors[size_t(i * kRows + r)] = m.row(first + r)[i];
      for (int64_t chunk = 0; chunk < 2 * chunks; ++chunk) {
        double left[kRows][kWidth] = {};
        for (int64_t j = first; j < end; ++j) std::copy(now(real, chunk, j), now(real, chunk, j) + kWidth, left[j - first]);
        if (end < k)
          add_products<double, 1>(k - end, &factors[size_t((k - 1) * kRows)], -int64_t(kRows), error(chunk, k - 1), -kWidth,
                                  left[0], kWidth);
        for (int64_t j = end - 1; j >= first; --j) {
          for (int64_t i = end - 1; i > j; --i)
            for (int64_t r = 0; r < kWidth; ++r) left[j - first][r] += m.row(j)[i] * error(chunk, i)[r];
          finish(chunk, j, left[j - first], m.pivots[size_t(j)], limit);
        }
      }
    }
  }

  double *now(std::vector<double> &of, int64_t chunk, int64_t j) { return &of[size_t((chunk % chunks * k + j) * kWidth)]; }
  double *error(int64_t chunk, int64_t j) { return &errors[size_t((chunk * k + j) * kWidth)]; }

  void finish(int64_t chunk, int64_t j, const double *left, double pivot, double limit) {
    double *q = now(chunk < chunks ? steps : nearest, chunk, j), *lost = error(chunk, j);
    const double *exact = now(real, chunk, j);
    for (int64_t r = 0; r < kWidth && chunk < chunks; ++r) q[r] = std::min(std::max(std::rint(left[r]), -limit), limit);
    for (int64_t r = 0; r < kWidth; ++r) {
      const double off = left[r] - q[r];
      lost[r] = exact[r] - q[r];
      total[size_t(chunk * kWidth + r)] += pivot * off * off;
      square[size_t(chunk * kWidth + r)] += lost[r] * lost[r];
    }
  }
};

bool round_rows(const Rounding &t) {
  const int64_t k = t.k;
  Factors m(k);
  Rows w(k, t.rows);
  for (int64_t g = 0; g < t.groups; ++g) {
    const int64_t *order = t.order + g * k;
    const double *gram = t.grams + g * k * k;
    for (int64_t i = 0; i < k; ++i) {
      for (int64_t j = 0; j < k; ++j) m.row(i)[j] = gram[order[i] * k + order[j]];
      m.row(i)[i] += t.damping[g];
    }
    if (!m.factorize()) return false;
    for (int64_t r = 0; r < t.rows; ++r)
      for (int64_t i = 0; i < k; ++i) {
        const int64_t from = (g * t.rows + r) * k + order[i];
        w.now(w.real, r / kWidth, i)[r % kWidth] = t.real[from];
        w.now(w.nearest, r / kWidth, i)[r % kWidth] = t.nearest[from];
      }
    w.round(m, t.limit);
    for (int64_t r = 0; r < t.rows; ++r) {
      for (int64_t i = 0; i < k; ++i)
        t.steps[(g * t.rows + r) * k + order[i]] = w.now(w.steps, r / kWidth, i)[r % kWidth];
      for (int64_t way = 0; way < 2; ++way) {
        const size_t at = size_t((way * w.chunks) * kWidth + r);
        t.lost[(way * t.groups + g) * t.rows + r] = w.total[at] - t.damping[g] * w.square[at];
      }
    }
  }
  return true;
}

// ---- gram ------------------------------------------------------------------------------------------------------------

void add_gram(int64_t groups, int64_t rows, int64_t k, const float *x, double *gram) {
  constexpr int64_t kAcross = 2 * Floats::kLanes, kDeep = 256;
  const int64_t step = padded(k, kAcross);
  std::vector<float> product(size_t((padded(k, kRows) + kRows) * step)), some(size_t(kDeep * step + kRows));
  for (int64_t g = 0; g < groups; ++g, x += rows * k, gram += k * k) {
    std::fill(product.begin(), product.end(), 0.0f);
    for (int64_t first = 0; first < rows; first += kDeep) {
      const int64_t count = std::min(kDeep, rows - first);
      for (int64_t n = 0; n < count; ++n) std::copy(x + (first + n) * k, x + (first + n + 1) * k, &some[n * step]);
      for (int64_t i = 0; i < step; i += kAcross)  // the upper triangle
        for (int64_t l = 0; l < std::min(k, i + kAcross); l += kRows)
          add_products<float, 1>(count, &some[l], step, &some[i], step, &product[l * step + i], step);
    }
    for (int64_t i = 0; i < k; ++i)
      for (int64_t j = i; j < k; ++j) gram[i * k + j] += product[i * step + j];
    for (int64_t top = 0; top < k; top += kAcross)  // in squares: the other half is read down its columns
      for (int64_t left = 0; left <= top; left += kAcross)
        for (int64_t i = top; i < std::min(top + kAcross, k); ++i)
          for (int64_t j = left; j < std::min(left + kAcross, i); ++j) gram[i * k + j] += product[j * step + i];
  }
}

}  // namespace
}  // namespace axtool
