// The Python side of the engine: shapes are checked here, the GIL is released while it runs.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "engine.h"
#include "histogram.h"
#include "least_squares.h"
#include "postamble/bind.h"

namespace nb = nanobind;
using namespace nb::literals;
using namespace axtool;

constexpr int kAbiVersion = 2;  // raised when the arguments below change

using Integers = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Bytes = nb::ndarray<uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Out = nb::ndarray<uint8_t, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

static const Isa kIsas[] = {Isa::portable, Isa::avx2, Isa::avxvnni, Isa::avx512vnni, Isa::neon_dot};

static Isa isa_of(const std::string &name) {
  if (name == "auto") return best_isa();
  std::string known = "auto";
  for (Isa isa : kIsas) {
    if (!isa_available(isa)) continue;
    if (name == isa_name(isa)) return isa;
    known += std::string(", ") + isa_name(isa);
  }
  throw Refusal("isa '" + name + "' does not exist on this CPU; there are " + known);
}

static Rows rows_of(const Integers &values, const Integers &offsets) {
  return {values.data(), int64_t(values.shape(0)), offsets.data(), int64_t(offsets.shape(0))};
}

static int64_t size_of(const nb::dict &sizes, const char *memory) {
  return sizes.contains(memory) ? nb::cast<int64_t>(sizes[memory]) : 0;
}

static Memory memory_of(const Bytes &bytes) { return {reinterpret_cast<int8_t *>(bytes.data()), int64_t(bytes.size())}; }

static View view_of(const nb::handle &view) {
  auto number = [](const nb::handle &of, const char *name) { return nb::cast<int64_t>(of.attr(name)); };
  const nb::object tile = view.attr("tile");
  const std::string memory = nb::cast<std::string>(view.attr("memory"));
  if (memory != "ext" && memory != "ocm") throw Refusal("memory '" + memory + "' does not exist");
  const int64_t row[] = {0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 1, 1,  // the row of a command with one read: the same checks
                         memory == "ocm", number(view, "offset"), number(tile, "y"), number(tile, "x"), number(tile, "c"),
                         number(tile, "h"), number(tile, "w"), number(tile, "n"), number(view, "row_stride"),
                         number(view, "pixel_stride")};
  return decode_command(row, 22).reads[0];
}

static void run(Engine &engine, const Bytes &ext, const Bytes &ocm, const nb::object &taps) {
  std::vector<TapView> views;
  std::vector<Out> outs;  // kept alive
  std::vector<int8_t *> pointers;
  for (nb::handle tap : taps.is_none() ? nb::object(nb::list()) : taps) {
    const View view = view_of(tap.attr("view"));
    outs.push_back(nb::cast<Out>(tap.attr("out")));
    const Out &out = outs.back();
    if (int64_t(out.shape(0)) != view.box.h || int64_t(out.shape(1)) != view.box.w || int64_t(out.shape(2)) != view.box.n)
      throw Refusal("a tap of " + to_string(view.box) + " has an array of another shape to fill");
    views.push_back({nb::cast<int64_t>(tap.attr("after_command")), view});
    pointers.push_back(reinterpret_cast<int8_t *>(out.data()));
  }
  nb::gil_scoped_release free_threads;
  engine.run(memory_of(ext), memory_of(ocm), views, pointers);
}

using Floats = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Counts = nb::ndarray<int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

static std::tuple<size_t, float, float> histogram(const Floats &x, int exponent, const Counts &counts) {
  if (counts.shape(0) % 2 == 0) throw Refusal("counts: want an odd number of bins");
  nb::gil_scoped_release free_threads;
  const Seen seen = histogram_f32(x.shape(0), x.data(), exponent, counts.shape(0), counts.data());
  return {seen.homeless, seen.low, seen.high};
}

template <class Number, int rank>
using Array = nb::ndarray<Number, nb::ndim<rank>, nb::c_contig, nb::device::cpu>;

static bool round_rows(const Array<const double, 3> &real, const Array<const double, 3> &nearest,
                       const Array<const double, 3> &grams, const Array<const int64_t, 2> &order,
                       const Array<const double, 1> &damping, double limit, const Array<double, 3> &steps,
                       const Array<double, 3> &lost) {
  const size_t groups = real.shape(0), rows = real.shape(1), k = real.shape(2);
  auto same = [&](const auto &array, size_t a, size_t b, size_t c) {
    return array.shape(0) == a && array.shape(1) == b && array.shape(2) == c;
  };
  if (!same(nearest, groups, rows, k) || !same(grams, groups, k, k) || !same(steps, groups, rows, k) ||
      !same(lost, 2, groups, rows) || order.shape(0) != groups || order.shape(1) != k || damping.shape(0) != groups)
    throw Refusal("round_rows_f64: the arrays do not fit each other");
  for (size_t i = 0; i < groups * k; ++i)
    if (order.data()[i] < 0 || order.data()[i] >= int64_t(k)) throw Refusal("order: want indices below k");
  nb::gil_scoped_release free_threads;
  return round_rows_f64({int64_t(groups), int64_t(rows), int64_t(k), real.data(), nearest.data(), grams.data(),
                         order.data(), damping.data(), limit, steps.data(), lost.data()});
}

static void gram(const Array<const float, 3> &x, const Array<double, 3> &into) {
  const size_t groups = x.shape(0), k = x.shape(2);
  if (into.shape(0) != groups || into.shape(1) != k || into.shape(2) != k) throw Refusal("gram: want (group, k, k)");
  nb::gil_scoped_release free_threads;
  gram_f32(int64_t(groups), int64_t(x.shape(1)), int64_t(k), x.data(), into.data());
}

using Pair = std::tuple<int64_t, int64_t>;

static void windows(const Array<const float, 3> &image, const Pair &kernel, const Pair &dilation,
                    const Array<const int64_t, 1> &y, const Array<const int64_t, 1> &x, const Array<float, 3> &found) {
  const auto [kh, kw] = kernel;
  const auto [dh, dw] = dilation;
  const int64_t channels = int64_t(image.shape(0)), groups = int64_t(found.shape(0)), count = int64_t(y.shape(0));
  const bool fits = kh > 0 && kw > 0 && kh < (1 << 20) && kw < (1 << 20) && groups > 0 && channels % groups == 0 &&
                    int64_t(x.shape(0)) == count && int64_t(found.shape(1)) == count &&
                    int64_t(found.shape(2)) == channels / groups * kh * kw;
  if (!fits) throw Refusal("windows_f32: the arrays do not fit each other");
  nb::gil_scoped_release free_threads;
  windows_f32({channels, int64_t(image.shape(1)), int64_t(image.shape(2)), image.data(), groups, {kh, kw}, {dh, dw},
               count, y.data(), x.data(), found.data()});
}

static nb::dict cpu() {
  nb::list names;
  for (Isa isa : kIsas)
    if (isa_available(isa)) names.append(isa_name(isa));
  nb::dict d;
  d["isas"] = names;
  d["best"] = isa_name(best_isa());
  return d;
}

static nb::list op_table() {
  nb::list ops;
  for (const OpFields &op : op_fields()) {
    nb::list fields;
    for (const Field &f : op.fields) fields.append(nb::make_tuple(f.name, f.width));
    ops.append(nb::make_tuple(op.name, fields));
  }
  return ops;
}

NB_MODULE(_native, m) {
  m.attr("abi_version") = kAbiVersion;
  m.def("cpu", &cpu, "{'isas': instruction sets that can be asked for, 'best': the one that 'auto' takes}");
  m.def("op_table", &op_table, "The ops as the engine decodes them: (name, [(field, width)]), by opcode.");
  m.def("histogram_f32", &histogram, "x"_a, "exponent"_a, "counts"_a,
        "Count trunc(x * 2^-exponent) around the middle of counts, unless a value has no bin: (such values, low, high)");
  m.def("round_rows_f64", &round_rows, "real"_a, "nearest"_a, "grams"_a, "order"_a, "damping"_a, "limit"_a, "steps"_a,
        "lost"_a, "See axtool.quant.rounding; false where a damped matrix is not positive definite.");
  m.def("gram_f32", &gram, "x"_a, "gram"_a, "gram += x'x of each group, the sum over the rows of x in float32.");
  m.def("windows_f32", &windows, "image"_a, "kernel"_a, "dilation"_a, "y"_a, "x"_a, "found"_a,
        "What the taps of a convolution meet from (y, x) on, of each group: (group, window, k).");
  postamble::bind_heads(m);
  postamble::bind_labels(m);
  postamble::bind_steps(m);
  nb::class_<Engine>(m, "Engine", "Executes rows of axtool.ops.encoding; see axtool.sim.engine.open_engine.")
      .def(
          "__init__",
          [](Engine *self, Integers layers, Integers layer_offsets, Integers commands, Integers command_offsets,
             nb::dict sizes, int threads, const std::string &isa, bool merge, const nb::dict &functions) {
            const Sizes bytes{{size_of(sizes, "ext"), size_of(sizes, "ocm")}};
            std::map<int64_t, Function> known;
            for (const auto &[id, address] : functions)
              known[nb::cast<int64_t>(id)] = reinterpret_cast<Function>(nb::cast<uintptr_t>(address));
            new (self) Engine(rows_of(layers, layer_offsets), rows_of(commands, command_offsets), bytes, threads,
                              isa_of(isa), merge, known);
          },
          "layers"_a, "layer_offsets"_a, "commands"_a, "command_offsets"_a, "sizes"_a, "threads"_a = 1, "isa"_a = "auto",
          "merge"_a = true, "functions"_a = nb::dict())
      .def("run", &run, "ext"_a, "ocm"_a, "taps"_a = nb::none(),
           "Run every command over the two memories; ValueError for what does not fit.")
      .def(
          "freeze",
          [](Engine &engine, const Bytes &ext, const Bytes &ocm) {
            nb::gil_scoped_release free_threads;
            return engine.freeze(memory_of(ext), memory_of(ocm));
          },
          "ext"_a, "ocm"_a,
          "Arrange the constants in ext once, for later runs without taps, which then ignore what is written there; "
          "returns the bytes that this takes.")
      .def_prop_ro("steps", &Engine::step_count, "Steps that a run without taps takes: commands left after merging.")
      .def_prop_ro("threads", &Engine::threads)
      .def_prop_ro("isa", [](const Engine &engine) { return std::string(isa_name(engine.isa())); });
}
