// The Python side of bytes.h: every shape and size is checked here, the GIL is released while the loops run.
#include "postamble/bind.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "mac/mac.h"
#include "postamble/bytes.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace axtool::postamble {

using Bytes = nb::ndarray<const int8_t, nb::ndim<3>, nb::device::cpu>;
using Table = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Kinds = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Grid = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Line = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Rows = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Out = nb::ndarray<float, nb::ndim<2>, nb::device::cpu>;
constexpr int64_t kParams = 27;  // scale, zero, stride, 3 x 8 factors

static std::vector<const Loops *> all_loops() {
  std::vector<const Loops *> found = {&loops_portable};
#if defined(__x86_64__)
  if (isa_available(Isa::avx2)) found.push_back(&loops_avx2);
  if (isa_available(Isa::avx512vnni)) found.push_back(&loops_avx512);
#elif defined(__aarch64__)
  found.push_back(&loops_neon);
#endif
  return found;
}

static const Loops &loops_of(const std::string &backend) {
  static const std::vector<const Loops *> known = all_loops();
  if (backend == "auto") return *known.back();
  for (const Loops *loops : known)
    if (backend == loops->name) return *loops;
  std::string names = "auto";
  for (const Loops *loops : known) names += std::string(", ") + loops->name;
  throw nb::value_error(("backend '" + backend + "' does not exist on this CPU; there are " + names).c_str());
}

static Pixels pixels_of(const Bytes &x) {
  if (x.shape(2) > 1 && x.stride(2) != 1) throw nb::value_error("x: the bytes of a pixel must follow each other");
  return {x.data(), int64_t(x.shape(0)), int64_t(x.shape(1)), int64_t(x.shape(2)), x.stride(0), x.stride(1)};
}

static std::vector<ByteFunction> functions_of(const Kinds &kinds, const Table &tables, const Table &params) {
  const size_t n = kinds.shape(0);
  if (n == 0 || tables.shape(0) != n || tables.shape(1) != 256 || params.shape(0) != n || params.shape(1) != kParams)
    throw nb::value_error("functions: want kinds (n), tables (n, 256), params (n, 27)");
  std::vector<ByteFunction> made(n);
  for (size_t i = 0; i < n; ++i) {
    const float *p = params.data() + i * kParams;
    if (kinds.data()[i] < 0 || kinds.data()[i] > 5) throw nb::value_error("functions: there is no such kind");
    made[i] = {Kind(kinds.data()[i]), p[0], p[1], p[2], tables.data() + i * 256, p + 3};
  }
  return made;
}

static void map(const Bytes &x, const Kinds &kinds, const Table &tables, const Table &params,
                const std::optional<Grid> &grid, const Out &out, const std::string &backend) {
  const Pixels pixels = pixels_of(x);
  const int64_t n = pixels.h * pixels.w;
  if (int64_t(out.shape(0)) != n || int64_t(out.shape(1)) != pixels.c)
    throw nb::value_error("out: want (pixels, channels) of x");
  const std::vector<ByteFunction> functions = functions_of(kinds, tables, params);
  for (const ByteFunction &f : functions)
    if ((f.kind == Kind::grid_x || f.kind == Kind::grid_y) && (!grid || grid->shape(0) != 2 || int64_t(grid->shape(1)) != n))
      throw nb::value_error("grid: want (2, pixels)");
  const Loops &loops = loops_of(backend);
  const Floats to = {out.data(), out.stride(0), out.stride(1)};
  nb::gil_scoped_release free_threads;
  loops.map(pixels, functions.data(), int64_t(functions.size()), grid ? grid->data() : nullptr, to);
}

static void bins(const Bytes &x, int64_t count, bool shifted, const Kinds &kinds, const Table &tables,
                 const Table &params, const Rows &out, const std::string &backend) {
  const Pixels pixels = pixels_of(x);
  if (count < 1 || count > 64 || pixels.c != 4 * count) throw nb::value_error("x: want 4 * bins channels, bins in 1..64");
  if (out.shape(0) != 4 || int64_t(out.shape(1)) != pixels.h * pixels.w)
    throw nb::value_error("out: want (4, pixels)");
  const std::vector<ByteFunction> functions = functions_of(kinds, tables, params);
  const Loops &loops = loops_of(backend);
  nb::gil_scoped_release free_threads;
  loops.bins(pixels, count, shifted, functions[0], out.data());
}

static void boxes(const Grid &distances, const Grid &grid, const std::optional<Line> &cos, const std::optional<Line> &sin,
                  float stride, const Out &out, const std::string &backend) {
  const size_t n = distances.shape(1);
  if (distances.shape(0) != 4 || grid.shape(0) != 2 || grid.shape(1) != n || out.shape(0) != n || out.shape(1) != 4)
    throw nb::value_error("want distances (4, n), grid (2, n), out (n, 4)");
  if (cos.has_value() != sin.has_value() || (cos && (cos->shape(0) != n || sin->shape(0) != n)))
    throw nb::value_error("want cos (n) and sin (n), or neither");
  const Loops &loops = loops_of(backend);
  const Floats to = {out.data(), out.stride(0), out.stride(1)};
  nb::gil_scoped_release free_threads;
  loops.boxes(distances.data(), grid.data(), cos ? cos->data() : nullptr, sin ? sin->data() : nullptr, int64_t(n),
              stride, to);
}

static std::vector<std::string> backends() {
  std::vector<std::string> names;
  for (const Loops *loops : all_loops()) names.emplace_back(loops->name);
  return names;
}

void bind_bytes(nb::module_ &m) {
  m.def("postamble_backends", &backends, "The backends of postamble kernels that this CPU has, the best last.");
  m.def("map_s8_f32", &map, "x"_a, "kinds"_a, "tables"_a, "params"_a, "grid"_a.none(), "out"_a, "backend"_a = "auto",
        "Channel k of x (h, w, c) through function k % n, into out (h * w, c) of any strides.");
  m.def("bins_s8_f32", &bins, "x"_a, "bins"_a, "shifted"_a, "kinds"_a, "tables"_a, "params"_a, "out"_a,
        "backend"_a = "auto", "The expected bin of the four sides of x (h, w, 4 * bins), into out (4, h * w).");
  m.def("boxes_f32", &boxes, "distances"_a, "grid"_a, "cos"_a.none(), "sin"_a.none(), "stride"_a, "out"_a,
        "backend"_a = "auto", "Distances (4, n) from a grid (2, n) as centres and sizes, into out (n, 4) of any strides.");
}

}  // namespace axtool::postamble
