// The same loops for AVX-512 CPUs: the loops of AVX2 with twice the registers. Empty where the compiler is not asked for it.
#include "postamble/bytes.h"

#if defined(__AVX512VL__)
#include <immintrin.h>

#include <algorithm>
#include <cstring>

namespace axtool::postamble {
namespace avx512 {
#include "postamble/bytes_x86.inc"
#include "postamble/bytes.inc"
}  // namespace avx512

const Loops loops_avx512 = {"avx512", avx512::map, avx512::bins, avx512::boxes};

}  // namespace axtool::postamble
#endif
