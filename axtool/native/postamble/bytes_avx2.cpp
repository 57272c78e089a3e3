// The same loops for AVX2: eight floats at a time, bytes turned in registers. Empty where the compiler is not asked for it.
#include "postamble/bytes.h"

#if defined(__AVX2__)
#include <immintrin.h>

#include <algorithm>
#include <cstring>

namespace axtool::postamble {
namespace avx2 {
#include "postamble/bytes_x86.inc"
#include "postamble/bytes.inc"
}  // namespace avx2

const Loops loops_avx2 = {"avx2", avx2::map, avx2::bins, avx2::boxes};

}  // namespace axtool::postamble
#endif
