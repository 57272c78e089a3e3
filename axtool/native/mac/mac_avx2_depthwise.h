// AVX2 depthwise tile: entries of two taps, so that vpmaddwd adds two products in each of 8 channels.
#pragma once
#include "mac_avx2_finish.h"
#include "mac_avx2_sums.h"

namespace axtool {
namespace {

// One entry of a pixel, at `x`: two taps of 16 channels. In assembly for the reason that is given in mac_avx2_sums.h.
#define AVX2_ENTRY(x, A0, A1)                  \
  "vpmaddwd " x ", %%ymm12, %%ymm14\n\t"       \
  "vpmaddwd 32" x ", %%ymm13, %%ymm15\n\t"     \
  "vpaddd %%ymm14, %%" A0 ", %%" A0 "\n\t"     \
  "vpaddd %%ymm15, %%" A1 ", %%" A1 "\n\t"
#define AVX2_ENTRIES1 AVX2_ENTRY("(%[near])", "ymm0", "ymm1")
#define AVX2_ENTRIES2 AVX2_ENTRIES1 AVX2_ENTRY("(%[near],%[step])", "ymm2", "ymm3")
#define AVX2_ENTRIES3 AVX2_ENTRIES2 AVX2_ENTRY("(%[near],%[step],2)", "ymm4", "ymm5")
#define AVX2_ENTRIES4 AVX2_ENTRIES3 AVX2_ENTRY("(%[far])", "ymm6", "ymm7")
#define AVX2_ENTRIES5 AVX2_ENTRIES4 AVX2_ENTRY("(%[far],%[step])", "ymm8", "ymm9")
#define AVX2_ENTRIES6 AVX2_ENTRIES5 AVX2_ENTRY("(%[far],%[step],2)", "ymm10", "ymm11")

#define AVX2_DEPTHWISE(N)                                                                                     \
  asm volatile(AVX2_MOVE##N(AVX2_LOAD) ".p2align 4\n\t"                                                       \
               "1:\n\tmovslq (%[taps]), %[near]\n\tlea (%[p],%[near],2), %[near]\n\t"                        \
               "lea (%[near],%[three]), %[far]\n\t"                                                          \
               "vmovdqa (%[w]), %%ymm12\n\tvmovdqa 32(%[w]), %%ymm13\n\t" AVX2_ENTRIES##N                    \
               "add $4, %[taps]\n\tadd $64, %[w]\n\tdec %[count]\n\tjnz 1b\n\t" AVX2_MOVE##N(AVX2_STORE)      \
               : [near] "=&r"(near), [far] "=&r"(far), [taps] "+r"(taps), [w] "+r"(w), [count] "+r"(count)    \
               : [p] "r"(p), [step] "r"(bytes), [three] "r"(three), [sums] "r"(sums), [bias] "r"(out.bias)    \
               : "memory", "cc", "ymm0", "ymm1", "ymm2", "ymm3", "ymm4", "ymm5", "ymm6", "ymm7", "ymm8",      \
                 "ymm9", "ymm10", "ymm11", "ymm12", "ymm13", "ymm14", "ymm15")

struct Avx2Depthwise : Avx2Values {
  static constexpr int kPixels = 6, kTaps = 2;

  static void interleave(__m128i a, __m128i b, int16_t *dst) {
    _mm256_store_si256((__m256i *)dst, _mm256_cvtepi8_epi16(_mm_unpacklo_epi8(a, b)));
    _mm256_store_si256((__m256i *)(dst + 16), _mm256_cvtepi8_epi16(_mm_unpackhi_epi8(a, b)));
  }

  static void fill(const int8_t *line, const int8_t *next, int16_t *dst, int n, int step) {
    for (int i = 0; i < n; ++i, line += step, next += step, dst += 32)
      interleave(_mm_loadu_si128((const __m128i *)line), _mm_loadu_si128((const __m128i *)next), dst);
  }

  static void prepare(const int8_t *w0, const int8_t *w1, int16_t *dst) {
    interleave(_mm_loadu_si128((const __m128i *)w0),
               w1 ? _mm_loadu_si128((const __m128i *)w1) : _mm_setzero_si128(), dst);
  }

  static void tile(const MacTask &t, int n, const int16_t *p, int64_t step, const int32_t *taps, int count,
                   const int16_t *w, const BlockOut &out, int8_t *y) {
    __m256i sums[kPixels][2];
    int8_t *to[kPixels];
    for (int i = 0; i < n; ++i) to[i] = y + i * t.y_pixel;
    const int64_t bytes = step * 2, three = bytes * 3;
    const int16_t *near, *far;
    switch (n) {
      case 1: AVX2_DEPTHWISE(1); break;
      case 2: AVX2_DEPTHWISE(2); break;
      case 3: AVX2_DEPTHWISE(3); break;
      case 4: AVX2_DEPTHWISE(4); break;
      case 5: AVX2_DEPTHWISE(5); break;
      default: AVX2_DEPTHWISE(6); break;
    }
    avx2_finish(t, out, n, sums, to, 0);
  }
};
}  // namespace
}  // namespace axtool
