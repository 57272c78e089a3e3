// The loops of labels for any CPU: 16 bytes are what every x86-64 and every Arm64 adds at once.
#include "postamble/labels.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace axtool::postamble {
namespace portable {
constexpr int64_t kVector = 16;
#include "postamble/labels_vector.inc"
#include "postamble/labels.inc"
}  // namespace portable

const LabelLoops labels_portable = {"scalar", portable::label_rows};

}  // namespace axtool::postamble
