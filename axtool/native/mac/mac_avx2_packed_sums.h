// AVX2: sums of packed pixels and frozen weights, up to 11 pixels x 8 channels in 11 registers.
//
// As in mac_avx2_bytes.h vpmaddubsw must not saturate: the positive weights of a pair add up to at most 128, and so do
// the negative ones. There are three kinds of step, cheapest first:
//   double  two quads whose pairs keep to that together: added in int16 before they are widened, which makes
//           3 multiplications of 4. Which quads go together is searched when the weights are frozen.
//   single  one quad whose pairs keep to it.
//   wide    a quad that is safe in no way, on int16. Its bytes are packed as x + 128 and x in turn: a lane is then
//           s = 256 * x1 + (x0 + 128), s >> 8 is x1, and
//           s * w0 + x1 * (w1 - 256 * w0) = (x0 + 128) * w0 + x1 * w1
//           so that one broadcast and one shift give both pairs. w0 is not -128, or the second factor would not fit.
//
// Pixels are packed as [quad][12 pixels] of 4 bytes, the last of the 12 unused: one register and a constant address
// every pixel, and a step is no more than one or two offsets and its weights.
#pragma once
#include "mac_avx2_finish.h"
#include "mac_frozen.h"

namespace axtool {
namespace {

#define AVX2_DOUBLE(at, A)                                \
  "vpbroadcastd " at "(%[x],%[a]), %%ymm14\n\t"           \
  "vpbroadcastd " at "(%[x],%[b]), %%ymm15\n\t"           \
  "vpmaddubsw %%ymm12, %%ymm14, %%ymm14\n\t"              \
  "vpmaddubsw %%ymm13, %%ymm15, %%ymm15\n\t"              \
  "vpaddw %%ymm15, %%ymm14, %%ymm14\n\t"                  \
  "vpmaddwd %%ymm11, %%ymm14, %%ymm14\n\t"                \
  "vpaddd %%ymm14, %%" A ", %%" A "\n\t"
#define AVX2_SINGLE(at, A)                                \
  "vpbroadcastd " at "(%[x],%[a]), %%ymm14\n\t"           \
  "vpmaddubsw %%ymm12, %%ymm14, %%ymm14\n\t"              \
  "vpmaddwd %%ymm11, %%ymm14, %%ymm14\n\t"                \
  "vpaddd %%ymm14, %%" A ", %%" A "\n\t"
#define AVX2_WIDE(at, A)                                  \
  "vpbroadcastd " at "(%[x],%[a]), %%ymm14\n\t"           \
  "vpsraw $8, %%ymm14, %%ymm15\n\t"                       \
  "vpmaddwd %%ymm12, %%ymm14, %%ymm14\n\t"                \
  "vpmaddwd %%ymm13, %%ymm15, %%ymm15\n\t"                \
  "vpaddd %%ymm14, %%" A ", %%" A "\n\t"                  \
  "vpaddd %%ymm15, %%" A ", %%" A "\n\t"
#define AVX2_START(at, A) "vmovdqu (%[bias]), %%" A "\n\t"
#define AVX2_RESUME(at, A) "vmovdqa 16*" at "(%[sums]), %%" A "\n\t"
#define AVX2_END(at, A) "vmovdqa %%" A ", 16*" at "(%[sums])\n\t"

#define AVX2_EACH1(M) M("0", "ymm0")
#define AVX2_EACH2(M) AVX2_EACH1(M) M("4", "ymm1")
#define AVX2_EACH3(M) AVX2_EACH2(M) M("8", "ymm2")
#define AVX2_EACH4(M) AVX2_EACH3(M) M("12", "ymm3")
#define AVX2_EACH5(M) AVX2_EACH4(M) M("16", "ymm4")
#define AVX2_EACH6(M) AVX2_EACH5(M) M("20", "ymm5")
#define AVX2_EACH7(M) AVX2_EACH6(M) M("24", "ymm6")
#define AVX2_EACH8(M) AVX2_EACH7(M) M("28", "ymm7")
#define AVX2_EACH9(M) AVX2_EACH8(M) M("32", "ymm8")
#define AVX2_EACH10(M) AVX2_EACH9(M) M("36", "ymm9")
#define AVX2_EACH11(M) AVX2_EACH10(M) M("40", "ymm10")

// Sums of N pixels go 64 bytes apart: the other 8 channels lie between them. Without a bias they go on from there.
#define AVX2_PACKED_SUMS(N)                                                                                   \
  asm volatile("test %[bias], %[bias]\n\tjz 5f\n\t" AVX2_EACH##N(AVX2_START) "jmp 6f\n\t"                     \
               "5:\n\t" AVX2_EACH##N(AVX2_RESUME)                                                             \
               "6:\n\tvpcmpeqw %%ymm11, %%ymm11, %%ymm11\n\tvpsrlw $15, %%ymm11, %%ymm11\n\t"                 \
               "test %[doubles], %[doubles]\n\tjz 2f\n\t.p2align 4\n\t"                                       \
               "1:\n\tmovslq (%[list]), %[a]\n\tmovslq 4(%[list]), %[b]\n\t"                                  \
               "vmovdqa (%[w]), %%ymm12\n\tvmovdqa 32(%[w]), %%ymm13\n\t" AVX2_EACH##N(AVX2_DOUBLE)           \
               "add $8, %[list]\n\tadd $64, %[w]\n\tdec %[doubles]\n\tjnz 1b\n\t"                             \
               "2:\n\ttest %[singles], %[singles]\n\tjz 3f\n\t.p2align 4\n\t"                                 \
               "1:\n\tmovslq (%[list]), %[a]\n\tvmovdqa (%[w]), %%ymm12\n\t" AVX2_EACH##N(AVX2_SINGLE)        \
               "add $4, %[list]\n\tadd $32, %[w]\n\tdec %[singles]\n\tjnz 1b\n\t"                             \
               "3:\n\ttest %[wides], %[wides]\n\tjz 4f\n\t.p2align 4\n\t"                                     \
               "1:\n\tmovslq (%[list]), %[a]\n\t"                                                             \
               "vmovdqa (%[w]), %%ymm12\n\tvmovdqa 32(%[w]), %%ymm13\n\t" AVX2_EACH##N(AVX2_WIDE)             \
               "add $4, %[list]\n\tadd $64, %[w]\n\tdec %[wides]\n\tjnz 1b\n\t"                               \
               "4:\n\t" AVX2_EACH##N(AVX2_END)                                                                \
               : [a] "=&r"(a), [b] "=&r"(b), [w] "+r"(w), [list] "+r"(list), [doubles] "+r"(doubles),         \
                 [singles] "+r"(singles), [wides] "+r"(wides)                                                 \
               : [x] "r"(x), [sums] "r"(sums), [bias] "r"(bias)                                               \
               : "memory", "cc", "ymm0", "ymm1", "ymm2", "ymm3", "ymm4", "ymm5", "ymm6", "ymm7", "ymm8",      \
                 "ymm9", "ymm10", "ymm11", "ymm12", "ymm13", "ymm14", "ymm15")

inline void avx2_packed_sums(int n, const uint8_t *x, const MacFrozenSteps &steps, const int32_t *bias, __m256i *sums) {
  const int8_t *w = steps.weights;
  const int32_t *list = steps.offsets;
  int64_t doubles = steps.doubles, singles = steps.singles, wides = steps.wides, a, b;
  switch (n) {
    case 1: AVX2_PACKED_SUMS(1); break;
    case 2: AVX2_PACKED_SUMS(2); break;
    case 3: AVX2_PACKED_SUMS(3); break;
    case 4: AVX2_PACKED_SUMS(4); break;
    case 5: AVX2_PACKED_SUMS(5); break;
    case 6: AVX2_PACKED_SUMS(6); break;
    case 7: AVX2_PACKED_SUMS(7); break;
    case 8: AVX2_PACKED_SUMS(8); break;
    case 9: AVX2_PACKED_SUMS(9); break;
    case 10: AVX2_PACKED_SUMS(10); break;
    default: AVX2_PACKED_SUMS(11); break;
  }
}
}  // namespace
}  // namespace axtool
