// AVX2: 6 pixels x 16 channels from products to stored bytes without leaving the registers, where nothing but a scale
// below 1/2 and a clamp follows the sums.
//
// The channels of the two registers of a pixel are in such an order that packing them puts the bytes in theirs: what
// avx2_scale and the packs do to lanes is undone where weights and numbers are prepared, once.
#pragma once
#include <immintrin.h>

#include <cstddef>
#include <cstring>

#include "mac_block.h"

namespace axtool {
namespace {

// What the end of a block reads. The assembly knows the order.
struct alignas(32) Avx2Fused {
  static constexpr int kPixels = 6;
  static constexpr int channel[16] = {0, 2, 1, 3, 8, 10, 9, 11, 4, 6, 5, 7, 12, 14, 13, 15};

  int32_t bias[16];
  int32_t even[16], odd[16];  // factors of the even lanes and of the odd ones, in the even lanes: [8] for each register
  int64_t half[4];            // rounding in the lower 32 bits, the output's zero point in the upper
  int8_t lo[32], hi[32];

  static bool suits(const MacTask &t, const BlockOut &out) {
    return out.half_mantissa && t.act == 0 && out.channels == 16;
  }

  void set(const MacTask &t, const BlockOut &out) {
    for (int i = 0; i < 16; ++i) {
      bias[i] = out.bias[channel[i]], even[i] = 2 * out.params[16 + channel[i]];
      odd[i] = 2 * out.params[16 + channel[i | 1]];
    }
    for (int i = 0; i < 4; ++i) half[i] = (int64_t(1) << 31) + int64_t(t.out_zp) * (int64_t(1) << 32);
    memset(lo, t.lo, sizeof lo), memset(hi, t.hi, sizeof hi);
  }

  // A quad's stored weights with the channels in this order.
  static void order(const int8_t *src, __m256i *first, __m256i *second) {
    const __m256i a = _mm256_loadu_si256((const __m256i *)src), b = _mm256_loadu_si256((const __m256i *)(src + 32));
    *first = _mm256_shuffle_epi32(_mm256_permute2x128_si256(a, b, 0x20), 0xd8);
    *second = _mm256_shuffle_epi32(_mm256_permute2x128_si256(a, b, 0x31), 0xd8);
  }
};

#define AVX2_FUSED_PAIR(x, A0, A1)               \
  "vpbroadcastd " x ", %%ymm14\n\t"              \
  "vpmaddwd %%ymm12, %%ymm14, %%ymm15\n\t"       \
  "vpmaddwd %%ymm13, %%ymm14, %%ymm14\n\t"       \
  "vpaddd %%ymm15, %%" A0 ", %%" A0 "\n\t"       \
  "vpaddd %%ymm14, %%" A1 ", %%" A1 "\n\t"
#define AVX2_FUSED_PAIRS(at)                                                                                     \
  AVX2_FUSED_PAIR(at "(%[near])", "ymm0", "ymm1") AVX2_FUSED_PAIR(at "(%[near],%[step])", "ymm2", "ymm3")        \
  AVX2_FUSED_PAIR(at "(%[near],%[step],2)", "ymm4", "ymm5") AVX2_FUSED_PAIR(at "(%[far])", "ymm6", "ymm7")       \
  AVX2_FUSED_PAIR(at "(%[far],%[step])", "ymm8", "ymm9") AVX2_FUSED_PAIR(at "(%[far],%[step],2)", "ymm10", "ymm11")

// Half of a pixel: factors at `e` and `o` of the numbers; half of the rounding is ymm13.
#define AVX2_FUSED_SCALE(A, T, e, o)                  \
  "vpsrlq $32, %%" A ", %%" T "\n\t"                  \
  "vpmuldq " e "(%[k]), %%" A ", %%" A "\n\t"         \
  "vpmuldq " o "(%[k]), %%" T ", %%" T "\n\t"         \
  "vpaddq %%ymm13, %%" A ", %%" A "\n\t"              \
  "vpaddq %%ymm13, %%" T ", %%" T "\n\t"              \
  "vshufps $0xdd, %%" T ", %%" A ", %%" A "\n\t"
#define AVX2_FUSED_END(A0, A1, B0, B1, X, to0, to1)                                                    \
  AVX2_FUSED_SCALE(A0, "ymm14", "64", "128") AVX2_FUSED_SCALE(A1, "ymm15", "96", "160")                \
  AVX2_FUSED_SCALE(B0, "ymm14", "64", "128") AVX2_FUSED_SCALE(B1, "ymm15", "96", "160")                \
  "vpackssdw %%" A1 ", %%" A0 ", %%" A0 "\n\tvpackssdw %%" B1 ", %%" B0 ", %%" B0 "\n\t"               \
  "vpacksswb %%" B0 ", %%" A0 ", %%" A0 "\n\tvpermq $0xd8, %%" A0 ", %%" A0 "\n\t"                     \
  "vpmaxsb 224(%[k]), %%" A0 ", %%" A0 "\n\tvpminsb 256(%[k]), %%" A0 ", %%" A0 "\n\t"                 \
  "mov " to0 "(%[to]), %[near]\n\tmov " to1 "(%[to]), %[far]\n\t"                                      \
  "vmovdqu %%" X ", (%[near],%[c])\n\tvextracti128 $1, %%" A0 ", (%[far],%[c])\n\t"

// x: pixels `step` bytes apart, int16; w: [quad][2 pairs][16][2] int16; 6 outputs go to to[i] + c.
inline void avx2_fused(const int16_t *x, int64_t step, int64_t quads, const int16_t *w, const Avx2Fused &numbers,
                       int8_t *const *to, int64_t c) {
  static_assert(offsetof(Avx2Fused, even) == 64 && offsetof(Avx2Fused, odd) == 128 &&
                offsetof(Avx2Fused, half) == 192 && offsetof(Avx2Fused, lo) == 224 && offsetof(Avx2Fused, hi) == 256,
                "the assembly reads them");
  const int16_t *near = x;
  const char *far = reinterpret_cast<const char *>(x) + 3 * step;
  asm volatile("vmovdqa (%[k]), %%ymm0\n\tvmovdqa 32(%[k]), %%ymm1\n\t"
               "vmovdqa %%ymm0, %%ymm2\n\tvmovdqa %%ymm1, %%ymm3\n\tvmovdqa %%ymm0, %%ymm4\n\t"
               "vmovdqa %%ymm1, %%ymm5\n\tvmovdqa %%ymm0, %%ymm6\n\tvmovdqa %%ymm1, %%ymm7\n\t"
               "vmovdqa %%ymm0, %%ymm8\n\tvmovdqa %%ymm1, %%ymm9\n\tvmovdqa %%ymm0, %%ymm10\n\t"
               "vmovdqa %%ymm1, %%ymm11\n\t.p2align 4\n\t"
               "1:\n\tvmovdqa (%[w]), %%ymm12\n\tvmovdqa 32(%[w]), %%ymm13\n\t" AVX2_FUSED_PAIRS("")
               "vmovdqa 64(%[w]), %%ymm12\n\tvmovdqa 96(%[w]), %%ymm13\n\t" AVX2_FUSED_PAIRS("4")
               "add $8, %[near]\n\tadd $8, %[far]\n\tsub $-128, %[w]\n\tdec %[quads]\n\tjnz 1b\n\t"
               "vmovdqa 192(%[k]), %%ymm13\n\t"
               AVX2_FUSED_END("ymm0", "ymm1", "ymm2", "ymm3", "xmm0", "0", "8")
               AVX2_FUSED_END("ymm4", "ymm5", "ymm6", "ymm7", "xmm4", "16", "24")
               AVX2_FUSED_END("ymm8", "ymm9", "ymm10", "ymm11", "xmm8", "32", "40")
               : [near] "+r"(near), [far] "+r"(far), [w] "+r"(w), [quads] "+r"(quads)
               : [step] "r"(step), [k] "r"(&numbers), [to] "r"(to), [c] "r"(c)
               : "memory", "cc", "ymm0", "ymm1", "ymm2", "ymm3", "ymm4", "ymm5", "ymm6", "ymm7", "ymm8", "ymm9",
                 "ymm10", "ymm11", "ymm12", "ymm13", "ymm14", "ymm15");
}
}  // namespace
}  // namespace axtool
