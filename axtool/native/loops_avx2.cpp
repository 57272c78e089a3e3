// The same loops, compiled for AVX2. Empty where the compiler is not asked for it.
#include "loops.h"

#if defined(__AVX2__)
#include <immintrin.h>

namespace axtool {
namespace avx2 {
#include "loops.inc"
#include "loops_avx2_add.h"
#include "loops_avx2_mul.h"
}  // namespace avx2

const Loops loops_avx2 = {"avx2",    avx2::add_pairs, avx2::mul_pairs, avx2::lut, avx2::max, avx2::sum, avx2::requantize_s32,
                          avx2::blend_s8, avx2::blend_s32};

}  // namespace axtool
#endif
