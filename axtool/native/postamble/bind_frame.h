// The buffers and targets of one frame, as Python gives them, checked against what was described.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <array>
#include <stdexcept>
#include <string>
#include <vector>

#include "postamble/source.h"

namespace axtool::postamble {

using Buffer = nanobind::ndarray<const int8_t, nanobind::ndim<4>, nanobind::c_contig, nanobind::device::cpu>;
using Filled = nanobind::ndarray<float, nanobind::c_contig, nanobind::device::cpu>;
using Shape = std::array<int64_t, 4>;
using Padding = std::array<std::array<int64_t, 2>, 4>;

inline Source source_of(const Shape &shape, const Padding &padding) {
  if (shape[0] != 1) throw std::invalid_argument("source: want one frame");
  for (size_t axis = 1; axis < 4; ++axis)
    for (int64_t n : {shape[axis], padding[axis][0], padding[axis][1]})
      want(n >= 0 && n <= kMostSide, "source: a size or a padding out of range");
  const auto inside = [&](size_t axis) { return shape[axis] - padding[axis][0] - padding[axis][1]; };
  return {shape[1], shape[2], shape[3], padding[1][0], padding[2][0], padding[3][0], inside(1), inside(2), inside(3)};
}

inline std::vector<const int8_t *> sources_of(const std::vector<Source> &wanted, const std::vector<Buffer> &buffers) {
  if (buffers.size() != wanted.size()) throw std::invalid_argument("heads: another number of buffers");
  std::vector<const int8_t *> found;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const Source &s = wanted[i];
    const Buffer &b = buffers[i];
    if (b.shape(0) != 1 || int64_t(b.shape(1)) != s.height || int64_t(b.shape(2)) != s.width ||
        int64_t(b.shape(3)) != s.channels)
      throw std::invalid_argument("heads: buffer " + std::to_string(i) + " has another shape");
    found.push_back(b.data());
  }
  return found;
}

inline std::vector<float *> targets_of(const std::vector<int64_t> &wanted, const std::vector<Filled> &targets) {
  if (targets.size() != wanted.size()) throw std::invalid_argument("heads: another number of targets");
  std::vector<float *> found;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (int64_t(targets[i].size()) != wanted[i])
      throw std::invalid_argument("heads: target " + std::to_string(i) + " has another size");
    found.push_back(targets[i].data());
  }
  return found;
}

}  // namespace axtool::postamble
