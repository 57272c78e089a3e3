// The loops of labels for AVX2. Empty where the compiler is not asked for it.
#include "postamble/labels.h"

#if defined(__AVX2__)
#include <algorithm>
#include <cstring>
#include <vector>

namespace axtool::postamble {
namespace avx2 {
constexpr int64_t kVector = 32;
#include "postamble/labels_vector.inc"
#include "postamble/labels_x86.inc"
#include "postamble/labels.inc"
}  // namespace avx2

const LabelLoops labels_avx2 = {"avx2", avx2::label_rows};

}  // namespace axtool::postamble
#endif
