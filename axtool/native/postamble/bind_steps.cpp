// `Steps` for Python: every size is checked before memory is touched; the GIL is released while tiles are written.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <stdexcept>

#include "postamble/bind.h"
#include "postamble/bind_frame.h"
#include "postamble/steps.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace axtool::postamble {
namespace {

using Floats1 = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Kinds = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::vector<float> copy(const Floats1 &values) { return {values.data(), values.data() + values.shape(0)}; }

ByteFunctions functions_of(const Kinds &kinds, const Floats1 &tables, const Floats1 &params) {
  ByteFunctions made{{}, copy(tables), copy(params)};
  for (size_t i = 0; i < kinds.shape(0); ++i) made.kinds.push_back(ByteKind(kinds.data()[i]));
  return made;
}

void add_map(Steps &self, const std::array<int64_t, 3> &from, const std::array<int64_t, 4> &to, const Kinds &kinds,
             const Floats1 &tables, const Floats1 &params, const Floats1 &grid) {
  self.add(MapStep{from[0], from[1], from[2], {to[0], to[1], to[2], to[3]}, functions_of(kinds, tables, params),
                         copy(grid)});
}

// The first function is that of the distances, the others turn boxes.
void add_boxes(Steps &self, const std::array<int64_t, 3> &from, const std::array<int64_t, 4> &to, bool shifted,
               float stride, const std::array<Kinds, 2> &kinds, const std::array<Floats1, 2> &tables,
               const std::array<Floats1, 2> &params, const Floats1 &grid) {
  self.add(BoxStep{from[0], from[1], from[2], shifted, stride, {to[0], to[1], to[2], to[3]},
                         functions_of(kinds[0], tables[0], params[0]), functions_of(kinds[1], tables[1], params[1]),
                         copy(grid)});
}

void run(const Steps &self, const std::vector<Buffer> &buffers, const std::vector<Filled> &targets) {
  const std::vector<const int8_t *> from = sources_of(self.sources(), buffers);
  const std::vector<float *> to = targets_of(self.targets(), targets);
  nb::gil_scoped_release free_threads;
  self.run(from, to);
}

}  // namespace

void bind_steps(nb::module_ &m) {
  m.def("postamble_backends", &byte_backends, "The backends of postamble kernels that this CPU has, the best last.");
  nb::class_<Steps>(m, "Steps", "What is done with the buffers of a frame: see axtool.runtime.mega.byte_steps.")
      .def(
          "__init__",
          [](Steps *self, const std::string &backend, int threads) { new (self) Steps(backend, threads); },
          "backend"_a = "auto", "threads"_a = 1)
      .def(
          "add_source",
          [](Steps &self, const Shape &shape, const Padding &padding) { self.add_source(source_of(shape, padding)); },
          "shape"_a, "padding"_a)
      .def("add_target", [](Steps &self, int64_t floats) { self.add_target(floats); }, "floats"_a)
      .def("add_map", &add_map, "source"_a, "target"_a, "kinds"_a, "tables"_a, "params"_a, "grid"_a)
      .def("add_boxes", &add_boxes, "source"_a, "target"_a, "shifted"_a, "stride"_a, "kinds"_a, "tables"_a, "params"_a,
           "grid"_a)
      .def("run", &run, "buffers"_a, "targets"_a, "Fill the targets from the buffers of one frame.")
      .def_prop_ro("backend", [](const Steps &self) { return std::string(self.backend()); });
}

}  // namespace axtool::postamble
