// One function for each postamble kernel: it gives the Python module the kernel's functions.
#pragma once
#include <nanobind/nanobind.h>

namespace axtool::postamble {}  // namespace axtool::postamble
