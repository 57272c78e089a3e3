// The loops of labels for AVX-512. Empty where the compiler is not asked for it.
#include "postamble/labels.h"

#if defined(__AVX512BW__)
#include <algorithm>
#include <cstring>
#include <vector>

namespace axtool::postamble {
namespace avx512 {
constexpr int64_t kVector = 64;
#include "postamble/labels_vector.inc"
#include "postamble/labels_x86.inc"
#include "postamble/labels.inc"
}  // namespace avx512

const LabelLoops labels_avx512 = {"avx512", avx512::label_rows};

}  // namespace axtool::postamble
#endif
