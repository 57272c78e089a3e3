// One entry for each instruction set. The files that define them hold nothing but stubs where the compiler's flags lack
// the instructions, so that all of them build everywhere.
#pragma once
#include "mac.h"

namespace axtool {

void run_mac_portable(const MacTask &task);
}  // namespace axtool
