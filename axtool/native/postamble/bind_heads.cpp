// `Heads` for Python: every size is checked before memory is touched; the GIL is released while rows are written.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <stdexcept>

#include "postamble/bind.h"
#include "postamble/bind_frame.h"
#include "postamble/heads.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace axtool::postamble {
namespace {

using Floats = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

Kind kind_of(const std::string &name) {
  static const char *const names[] = {"affine", "sigmoid", "tanh", "softmax", "table", "softmax_pair", "grid_box", "corner_box"};
  for (int i = 0; i < 8; ++i)
    if (name == names[i]) return Kind(i);
  throw std::invalid_argument("strip: no kind '" + name + "'");
}

std::vector<float> copy(const Floats &values) { return {values.data(), values.data() + values.shape(0)}; }

void add_strip(Heads &self, const std::string &kind, const std::array<int64_t, 9> &places, bool columns_first, float scale,
               float zero, const Floats &table, const Floats &factors, const Floats &sizes, const Floats &rows,
               const Floats &cols, const Floats &steps) {
  const auto &[source, target, anchors, group, first, count, offset, anchor_step, pixel_step] = places;
  self.add_strip({kind_of(kind), source, target, anchors, group, first, count, offset, anchor_step, pixel_step,
                        columns_first, scale, zero, copy(table), copy(factors), copy(sizes), copy(rows), copy(cols),
                        copy(steps)});
}

void run(const Heads &self, const std::vector<Buffer> &buffers, const std::vector<Filled> &targets) {
  const std::vector<const int8_t *> from = sources_of(self.sources(), buffers);
  const std::vector<float *> to = targets_of(self.targets(), targets);
  nb::gil_scoped_release free_threads;
  self.run(from, to);
}

}  // namespace

void bind_heads(nb::module_ &m) {
  m.def("head_backends", &head_backends, "The backends that Heads can be asked for on this CPU, the best last.");
  nb::class_<Heads>(m, "Heads", "Strips of device channels as float32: see axtool.runtime.mega.strips.")
      .def(
          "__init__",
          [](Heads *self, const std::string &backend, int threads) { new (self) Heads(backend, threads); },
          "backend"_a = "auto", "threads"_a = 1)
      .def(
          "add_source",
          [](Heads &self, const Shape &shape, const Padding &padding) { self.add_source(source_of(shape, padding)); },
          "shape"_a, "padding"_a)
      .def("add_target", [](Heads &self, int64_t floats) { self.add_target(floats); }, "floats"_a)
      .def("add_strip", &add_strip, "kind"_a, "places"_a, "columns_first"_a, "scale"_a, "zero"_a, "table"_a, "factors"_a,
           "sizes"_a, "rows"_a, "cols"_a, "steps"_a)
      .def("run", &run, "buffers"_a, "targets"_a, "Fill the targets from the buffers of one frame.")
      .def_prop_ro("backend", [](const Heads &self) { return std::string(self.backend()); });
}

}  // namespace axtool::postamble
