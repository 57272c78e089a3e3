// A compute call of a MAC layer as mac/ wants it.
#pragma once
#include "mac/mac.h"
#include "ops.h"

namespace axtool {
MacTask mac_task(const Call &call);
}  // namespace axtool
