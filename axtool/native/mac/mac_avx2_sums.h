// AVX2: sums[i] = bias + x[i] * w over the runs, for 1 to 6 pixels and 16 channels; int16 pairs, vpmaddwd.
//
// In assembly: GCC 12 reorders a tile of intrinsics until it spills and copies registers, which costs a third of the
// speed. Register plan: pixel i has ymm(2i) and ymm(2i + 1), the weights ymm12 and ymm13, the pair in all lanes ymm14.
#pragma once
#include <immintrin.h>

#include "mac_plan.h"

namespace axtool {
namespace {

// Pixel i against the 16 channels of one pair; `at` is the pair's byte in the quad. A0, A1: its two sums.
#define AVX2_PAIR(P, A0, A1, at)                     \
  "vpbroadcastd " at "(%[" P "],%[x],2), %%ymm14\n\t" \
  "vpmaddwd %%ymm12, %%ymm14, %%ymm15\n\t"            \
  "vpmaddwd %%ymm13, %%ymm14, %%ymm14\n\t"            \
  "vpaddd %%ymm15, %%" A0 ", %%" A0 "\n\t"            \
  "vpaddd %%ymm14, %%" A1 ", %%" A1 "\n\t"
#define AVX2_LOAD(i, A0, A1) "vmovdqu (%[bias]), %%" A0 "\n\tvmovdqu 32(%[bias]), %%" A1 "\n\t"
#define AVX2_STORE(i, A0, A1) "vmovdqa %%" A0 ", " i "(%[sums])\n\tvmovdqa %%" A1 ", 32+" i "(%[sums])\n\t"

#define AVX2_PAIRS1(at) AVX2_PAIR("p0", "ymm0", "ymm1", at)
#define AVX2_PAIRS2(at) AVX2_PAIRS1(at) AVX2_PAIR("p1", "ymm2", "ymm3", at)
#define AVX2_PAIRS3(at) AVX2_PAIRS2(at) AVX2_PAIR("p2", "ymm4", "ymm5", at)
#define AVX2_PAIRS4(at) AVX2_PAIRS3(at) AVX2_PAIR("p3", "ymm6", "ymm7", at)
#define AVX2_PAIRS5(at) AVX2_PAIRS4(at) AVX2_PAIR("p4", "ymm8", "ymm9", at)
#define AVX2_PAIRS6(at) AVX2_PAIRS5(at) AVX2_PAIR("p5", "ymm10", "ymm11", at)
#define AVX2_MOVE1(M) M("0", "ymm0", "ymm1")
#define AVX2_MOVE2(M) AVX2_MOVE1(M) M("64", "ymm2", "ymm3")
#define AVX2_MOVE3(M) AVX2_MOVE2(M) M("128", "ymm4", "ymm5")
#define AVX2_MOVE4(M) AVX2_MOVE3(M) M("192", "ymm6", "ymm7")
#define AVX2_MOVE5(M) AVX2_MOVE4(M) M("256", "ymm8", "ymm9")
#define AVX2_MOVE6(M) AVX2_MOVE5(M) M("320", "ymm10", "ymm11")

// Outer loop over runs (x, w, quads: 12 bytes), inner over quads, two pairs in each.
#define AVX2_SUMS(N)                                                                                          \
  asm volatile(AVX2_MOVE##N(AVX2_LOAD) "1:\n\t"                                                               \
               "movslq 4(%[run]), %[w]\n\tshl $7, %[w]\n\tadd %[base], %[w]\n\t"                              \
               "movslq (%[run]), %[x]\n\tmovl 8(%[run]), %k[left]\n\t"                                        \
               ".p2align 4\n\t"                                                                               \
               "2:\n\tvmovdqa (%[w]), %%ymm12\n\tvmovdqa 32(%[w]), %%ymm13\n\t" AVX2_PAIRS##N("0")            \
               "vmovdqa 64(%[w]), %%ymm12\n\tvmovdqa 96(%[w]), %%ymm13\n\t" AVX2_PAIRS##N("4")                \
               "add $4, %[x]\n\tsub $-128, %[w]\n\tdec %k[left]\n\tjnz 2b\n\t"                                \
               "add $12, %[run]\n\tdecl %[count]\n\tjnz 1b\n\t" AVX2_MOVE##N(AVX2_STORE)                      \
               : [x] "=&r"(x), [w] "=&r"(at), [left] "=&r"(left), [run] "+r"(runs), [count] "+m"(count)       \
               : [p0] "r"(p[0]), [p1] "r"(p[N > 1 ? 1 : 0]), [p2] "r"(p[N > 2 ? 2 : 0]),                      \
                 [p3] "r"(p[N > 3 ? 3 : 0]), [p4] "r"(p[N > 4 ? 4 : 0]), [p5] "r"(p[N > 5 ? 5 : 0]),          \
                 [base] "r"(w), [sums] "r"(sums), [bias] "r"(bias)                                            \
               : "memory", "cc", "ymm0", "ymm1", "ymm2", "ymm3", "ymm4", "ymm5", "ymm6", "ymm7", "ymm8",      \
                 "ymm9", "ymm10", "ymm11", "ymm12", "ymm13", "ymm14", "ymm15")

static_assert(sizeof(MacRun) == 12, "the assembly steps over runs");

inline void avx2_fill(int n, const int32_t *bias, __m256i (*sums)[2]) {
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < 2; ++j) sums[i][j] = _mm256_loadu_si256((const __m256i *)(bias + 8 * j));
}

// w: prepared weights, [quad][2 pairs][16 channels][2]. sums: [n][2], 32-byte aligned.
inline void avx2_sums(int n, const int16_t *const *p, const MacRun *runs, int count, const int16_t *w,
                      const int32_t *bias, __m256i (*sums)[2]) {
  if (count == 0) return avx2_fill(n, bias, sums);
  int64_t x, left;
  const int16_t *at;
  switch (n) {
    case 1: AVX2_SUMS(1); break;
    case 2: AVX2_SUMS(2); break;
    case 3: AVX2_SUMS(3); break;
    case 4: AVX2_SUMS(4); break;
    case 5: AVX2_SUMS(5); break;
    default: AVX2_SUMS(6); break;
  }
}

// Pixel i against the first 8 channels of one pair.
#define AVX2_HALF_PAIR(P, A, at)                      \
  "vpbroadcastd " at "(%[" P "],%[x],2), %%ymm14\n\t" \
  "vpmaddwd %%ymm12, %%ymm14, %%ymm14\n\t"            \
  "vpaddd %%ymm14, %%" A ", %%" A "\n\t"
#define AVX2_HALF_PAIRS(at)                                                                         \
  AVX2_HALF_PAIR("p0", "ymm0", at) AVX2_HALF_PAIR("p1", "ymm1", at) AVX2_HALF_PAIR("p2", "ymm2", at) \
  AVX2_HALF_PAIR("p3", "ymm3", at) AVX2_HALF_PAIR("p4", "ymm4", at) AVX2_HALF_PAIR("p5", "ymm5", at)

// The same over one run from x = 0 on, of 6 pixels and only the first 8 channels; the other sums are 0. Pixels
// past n repeat the first.
inline void avx2_half_sums(int n, const int16_t *const *p, int quads, const int16_t *w, const int32_t *bias,
                           __m256i (*sums)[2]) {
  int64_t x = 0, left = quads;
  __m256i half[6];
  asm volatile("vmovdqu (%[bias]), %%ymm0\n\tvmovdqa %%ymm0, %%ymm1\n\tvmovdqa %%ymm0, %%ymm2\n\t"
               "vmovdqa %%ymm0, %%ymm3\n\tvmovdqa %%ymm0, %%ymm4\n\tvmovdqa %%ymm0, %%ymm5\n\t"
               ".p2align 4\n\t"
               "1:\n\tvmovdqa (%[w]), %%ymm12\n\t" AVX2_HALF_PAIRS("0")
               "vmovdqa 64(%[w]), %%ymm12\n\t" AVX2_HALF_PAIRS("4")
               "add $4, %[x]\n\tsub $-128, %[w]\n\tdec %[left]\n\tjnz 1b\n\t"
               "vmovdqa %%ymm0, (%[sums])\n\tvmovdqa %%ymm1, 32(%[sums])\n\tvmovdqa %%ymm2, 64(%[sums])\n\t"
               "vmovdqa %%ymm3, 96(%[sums])\n\tvmovdqa %%ymm4, 128(%[sums])\n\tvmovdqa %%ymm5, 160(%[sums])\n\t"
               : [x] "+r"(x), [w] "+r"(w), [left] "+r"(left)
               : [p0] "r"(p[0]), [p1] "r"(p[n > 1 ? 1 : 0]), [p2] "r"(p[n > 2 ? 2 : 0]), [p3] "r"(p[n > 3 ? 3 : 0]),
                 [p4] "r"(p[n > 4 ? 4 : 0]), [p5] "r"(p[n > 5 ? 5 : 0]), [sums] "r"(half), [bias] "r"(bias)
               : "memory", "cc", "ymm0", "ymm1", "ymm2", "ymm3", "ymm4", "ymm5", "ymm12", "ymm14");
  for (int i = 0; i < n; ++i) sums[i][0] = half[i], sums[i][1] = _mm256_setzero_si256();
}
}  // namespace
}  // namespace axtool
