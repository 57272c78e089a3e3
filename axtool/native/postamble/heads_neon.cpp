// The loops of heads.h for 64-bit Arm. Empty elsewhere.
#include "postamble/heads.h"

#if defined(__aarch64__)
#include <algorithm>
#include <cstring>

#include "postamble/lanes_neon.h"

namespace axtool::postamble {
namespace neon {

#include "postamble/heads_wide.inc"

using Wide = Functions;
#include "postamble/heads.inc"

}  // namespace neon

const HeadLoops heads_neon = {"neon", neon::row};

}  // namespace axtool::postamble
#endif
