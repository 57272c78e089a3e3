// `Heads` for Python: every size is checked before memory is touched; the GIL is released while rows are written.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <mutex>
#include <stdexcept>

#include "postamble/bind.h"
#include "postamble/heads.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace axtool::postamble {
namespace {

using Buffer = nb::ndarray<const int8_t, nb::ndim<4>, nb::c_contig, nb::device::cpu>;
using Filled = nb::ndarray<float, nb::c_contig, nb::device::cpu>;
using Floats = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

struct Bound {
  Heads heads;
  std::mutex running;  // the team's threads serve one call at a time
};

Kind kind_of(const std::string &name) {
  static const char *const names[] = {"affine", "sigmoid", "tanh", "softmax", "table", "softmax_pair", "grid_box", "corner_box"};
  for (int i = 0; i < 8; ++i)
    if (name == names[i]) return Kind(i);
  throw std::invalid_argument("strip: no kind '" + name + "'");
}

std::vector<float> copy(const Floats &values) { return {values.data(), values.data() + values.shape(0)}; }

void add_source(Bound &self, const std::array<int64_t, 4> &shape, const std::array<std::array<int64_t, 2>, 4> &padding) {
  if (shape[0] != 1) throw std::invalid_argument("source: want one frame");
  const auto inside = [&](int axis) { return shape[axis] - padding[axis][0] - padding[axis][1]; };
  self.heads.add_source({shape[1], shape[2], shape[3], padding[1][0], padding[2][0], padding[3][0], inside(1), inside(2),
                         inside(3)});
}

void add_strip(Bound &self, const std::string &kind, const std::array<int64_t, 9> &places, bool columns_first, float scale,
               float zero, const Floats &table, const Floats &factors, const Floats &sizes, const Floats &rows,
               const Floats &cols, const Floats &steps) {
  const auto &[source, target, anchors, group, first, count, offset, anchor_step, pixel_step] = places;
  self.heads.add_strip({kind_of(kind), source, target, anchors, group, first, count, offset, anchor_step, pixel_step,
                        columns_first, scale, zero, copy(table), copy(factors), copy(sizes), copy(rows), copy(cols),
                        copy(steps)});
}

void run(Bound &self, const std::vector<Buffer> &buffers, const std::vector<Filled> &targets) {
  const auto &sources = self.heads.sources();
  if (buffers.size() != sources.size() || targets.size() != self.heads.targets().size())
    throw std::invalid_argument("heads: another number of buffers or targets");
  std::vector<const int8_t *> from;
  std::vector<float *> to;
  for (size_t i = 0; i < sources.size(); ++i) {
    const Source &s = sources[i];
    const Buffer &b = buffers[i];
    if (b.shape(0) != 1 || int64_t(b.shape(1)) != s.height || int64_t(b.shape(2)) != s.width ||
        int64_t(b.shape(3)) != s.channels)
      throw std::invalid_argument("heads: buffer " + std::to_string(i) + " has another shape");
    from.push_back(b.data());
  }
  for (size_t i = 0; i < targets.size(); ++i) {
    if (int64_t(targets[i].size()) != self.heads.targets()[i])
      throw std::invalid_argument("heads: target " + std::to_string(i) + " has another size");
    to.push_back(targets[i].data());
  }
  nb::gil_scoped_release free_threads;
  const std::lock_guard<std::mutex> one_at_a_time(self.running);
  self.heads.run(from, to);
}

}  // namespace

void bind_heads(nb::module_ &m) {
  m.def("head_backends", &head_backends, "The backends that Heads can be asked for on this CPU, the best last.");
  nb::class_<Bound>(m, "Heads", "Strips of device channels as float32: see axtool.runtime.mega.strips.")
      .def(
          "__init__",
          [](Bound *self, const std::string &backend, int threads) { new (self) Bound{Heads(backend, threads), {}}; },
          "backend"_a = "auto", "threads"_a = 1)
      .def("add_source", &add_source, "shape"_a, "padding"_a)
      .def("add_target", [](Bound &self, int64_t floats) { self.heads.add_target(floats); }, "floats"_a)
      .def("add_strip", &add_strip, "kind"_a, "places"_a, "columns_first"_a, "scale"_a, "zero"_a, "table"_a, "factors"_a,
           "sizes"_a, "rows"_a, "cols"_a, "steps"_a)
      .def("run", &run, "buffers"_a, "targets"_a, "Fill the targets from the buffers of one frame.")
      .def_prop_ro("backend", [](const Bound &self) { return std::string(self.heads.backend()); });
}

}  // namespace axtool::postamble
