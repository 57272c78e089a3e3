// The loops for any CPU: what the compiler makes of them with its default instructions.
#include "loops.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace axtool {
namespace portable {
#include "loops.inc"
}  // namespace portable

const Loops loops_portable = {"portable",    portable::add, portable::mul,
                              portable::lut, portable::max, portable::sum,
                              portable::requantize_s32, portable::blend_s8, portable::blend_s32};

const Loops &loops_for(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::avx2 || isa == Isa::avxvnni || isa == Isa::avx512vnni) return loops_avx2;
#endif
  (void)isa;
  return loops_portable;
}

}  // namespace axtool
