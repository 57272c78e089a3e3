// One function for each file of bindings: it gives the Python module what postamble kernels call.
#pragma once
#include <nanobind/nanobind.h>

namespace axtool::postamble {

void bind_heads(nanobind::module_ &);
void bind_labels(nanobind::module_ &);
void bind_steps(nanobind::module_ &);

}  // namespace axtool::postamble
