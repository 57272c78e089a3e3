// The Python side of labels.h: every shape and size is checked here, the GIL is released while the loops run.
#include "postamble/bind.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <string>

#include "mac/mac.h"
#include "postamble/labels.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace axtool::postamble {

using Bytes = nb::ndarray<const int8_t, nb::ndim<3>, nb::device::cpu>;
using Labels = nb::ndarray<int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

static const LabelLoops &labels_of(const std::string &backend) {
#if defined(__x86_64__)
  if (isa_available(Isa::avx512vnni) && (backend == "auto" || backend == "avx512")) return labels_avx512;
  if (isa_available(Isa::avx2) && (backend == "auto" || backend == "avx2")) return labels_avx2;
#elif defined(__aarch64__)
  if (backend == "auto" || backend == "neon") return labels_neon;
#endif
  if (backend == "auto" || backend == "scalar") return labels_portable;
  throw nb::value_error(("backend '" + backend + "' does not exist on this CPU").c_str());
}

static void labels(const Bytes &x, int64_t factor, const Labels &out, const std::string &backend) {
  const size_t h = x.shape(0), w = x.shape(1), c = x.shape(2);
  if (h == 0 || w == 0 || c == 0 || c > 32767) throw nb::value_error("x: want pixels of 1 to 32767 channels");
  if (c > 1 && x.stride(2) != 1) throw nb::value_error("x: the bytes of a pixel must follow each other");
  if (factor < 1 || factor > 1024) throw nb::value_error("factor: want 1 to 1024");
  if (out.shape(0) != h * size_t(factor) || out.shape(1) != w * size_t(factor))
    throw nb::value_error("out: want (h * factor, w * factor)");
  const LabelLoops &loops = labels_of(backend);
  const Pixels pixels = {x.data(), int64_t(h), int64_t(w), int64_t(c), x.stride(0), x.stride(1)};
  nb::gil_scoped_release free_threads;
  loops.labels(pixels, factor, out.data());
}

void bind_labels(nb::module_ &m) {
  m.def("labels_s8_s64", &labels, "x"_a, "factor"_a, "out"_a, "backend"_a = "auto",
        "The largest channel at every pixel of x (h, w, c) enlarged bilinearly, into out (h * factor, w * factor).");
}

}  // namespace axtool::postamble
