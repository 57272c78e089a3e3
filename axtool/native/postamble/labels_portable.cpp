// The loops of labels for any CPU: 16 bytes are what every x86-64 and every Arm64 adds at once.
#include "postamble/labels.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace axtool::postamble {
namespace portable {
constexpr int64_t kVector = 16;
#include "postamble/labels_vector.inc"

inline int64_t first_most(const int8_t *x, int64_t c) {
  const int8_t best = *std::max_element(x, x + c);
  return static_cast<const int8_t *>(std::memchr(x, uint8_t(best), size_t(c))) - x;
}

#include "postamble/labels.inc"
}  // namespace portable

const LabelLoops labels_portable = {"scalar", portable::label_rows};

}  // namespace axtool::postamble
