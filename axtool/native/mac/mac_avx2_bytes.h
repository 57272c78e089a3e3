// AVX2: convolution on bytes, vpmaddubsw, exact by construction.
//
// vpmaddubsw adds two products u8 * s8 in int16 and saturates. It cannot where |w0 + w1| <= 128: of one sign, the sum
// stays within 255 * 128; of two signs, within 255 * 128 anyway. A quad of weights has three ways to make pairs of its
// four channels. The band is kept in three copies, its bytes in the order of each way, and each quad of a channel block
// takes the first way that is safe for all 16 channels; where none is, it is two steps, each with half of the weights.
// 27 of 100 vector operations fewer than on int16 pairs.
#pragma once
#include "mac_avx2_finish.h"
#include "mac_avx2_sums.h"
#include "mac_conv.h"

namespace axtool {
namespace {

#define AVX2_QUAD(P, A0, A1)                        \
  "vpbroadcastd (%[" P "],%[x]), %%ymm12\n\t"        \
  "vpmaddubsw %%ymm15, %%ymm12, %%ymm13\n\t"         \
  "vpmaddubsw 32(%[w]), %%ymm12, %%ymm12\n\t"        \
  "vpmaddwd %%ymm14, %%ymm13, %%ymm13\n\t"           \
  "vpmaddwd %%ymm14, %%ymm12, %%ymm12\n\t"           \
  "vpaddd %%ymm13, %%" A0 ", %%" A0 "\n\t"           \
  "vpaddd %%ymm12, %%" A1 ", %%" A1 "\n\t"
#define AVX2_QUADS1 AVX2_QUAD("p0", "ymm0", "ymm1")
#define AVX2_QUADS2 AVX2_QUADS1 AVX2_QUAD("p1", "ymm2", "ymm3")
#define AVX2_QUADS3 AVX2_QUADS2 AVX2_QUAD("p2", "ymm4", "ymm5")
#define AVX2_QUADS4 AVX2_QUADS3 AVX2_QUAD("p3", "ymm6", "ymm7")
#define AVX2_QUADS5 AVX2_QUADS4 AVX2_QUAD("p4", "ymm8", "ymm9")
#define AVX2_QUADS6 AVX2_QUADS5 AVX2_QUAD("p5", "ymm10", "ymm11")

// One loop over steps: the x offset from the list, 64 bytes of weights. ymm14 is 1 in all 16 lanes.
#define AVX2_BYTE_SUMS(N)                                                                                     \
  asm volatile(AVX2_MOVE##N(AVX2_LOAD) "vpcmpeqw %%ymm14, %%ymm14, %%ymm14\n\tvpsrlw $15, %%ymm14, %%ymm14\n\t" \
               ".p2align 4\n\t"                                                                               \
               "1:\n\tmovslq (%[step]), %[x]\n\tvmovdqa (%[w]), %%ymm15\n\t" AVX2_QUADS##N                    \
               "add $4, %[step]\n\tadd $64, %[w]\n\tdec %[count]\n\tjnz 1b\n\t" AVX2_MOVE##N(AVX2_STORE)      \
               : [x] "=&r"(x), [w] "+r"(w), [step] "+r"(steps), [count] "+r"(count)                           \
               : [p0] "r"(p[0]), [p1] "r"(p[N > 1 ? 1 : 0]), [p2] "r"(p[N > 2 ? 2 : 0]),                      \
                 [p3] "r"(p[N > 3 ? 3 : 0]), [p4] "r"(p[N > 4 ? 4 : 0]), [p5] "r"(p[N > 5 ? 5 : 0]),          \
                 [sums] "r"(sums), [bias] "r"(out->bias)                                                      \
               : "memory", "cc", "ymm0", "ymm1", "ymm2", "ymm3", "ymm4", "ymm5", "ymm6", "ymm7", "ymm8",      \
                 "ymm9", "ymm10", "ymm11", "ymm12", "ymm13", "ymm14", "ymm15")

struct Avx2Bytes : Avx2Values {
  using X = uint8_t;
  using W = int8_t;
  using Step = int32_t;
  static constexpr int kCopies = 3, offset = 128, kPixels = 6, kBlocks = 1;
  static constexpr int64_t kBandBytes = 64 << 10;  // of one copy

  static void expand(const int8_t *src, uint8_t *dst, int n) {
    const __m256i flip = _mm256_set1_epi8(int8_t(-128));
    int i = 0;
    for (; i + 32 <= n; i += 32)
      _mm256_storeu_si256((__m256i *)(dst + i), _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)(src + i)), flip));
    for (; i + 8 <= n; i += 8)
      _mm_storel_epi64((__m128i *)(dst + i),
                       _mm_xor_si128(_mm_loadl_epi64((const __m128i *)(src + i)), _mm256_castsi256_si128(flip)));
    for (; i < n; ++i) dst[i] = uint8_t(src[i] ^ 0x80);
  }

  // Channels of each quad as 0 2 1 3 and 0 3 1 2: the pairs are the first two and the last two.
  static __m256i order(int way) {
    const __m128i swapped = _mm_setr_epi8(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15);
    const __m128i crossed = _mm_setr_epi8(0, 3, 1, 2, 4, 7, 5, 6, 8, 11, 9, 10, 12, 15, 13, 14);
    return _mm256_broadcastsi128_si256(way == 1 ? swapped : crossed);
  }

  static void copy(uint8_t *band, int64_t elements, int64_t step) {
    for (int64_t i = 0; i < elements; i += 32) {
      const __m256i v = _mm256_load_si256((const __m256i *)(band + i));
      _mm256_store_si256((__m256i *)(band + step + i), _mm256_shuffle_epi8(v, order(1)));
      _mm256_store_si256((__m256i *)(band + 2 * step + i), _mm256_shuffle_epi8(v, order(2)));
    }
  }

  static bool safe(__m256i a, __m256i b) {
    const __m256i one = _mm256_set1_epi8(1);
    const __m256i sa = _mm256_abs_epi16(_mm256_maddubs_epi16(one, a));
    const __m256i sb = _mm256_abs_epi16(_mm256_maddubs_epi16(one, b));
    const __m256i over = _mm256_cmpgt_epi16(_mm256_max_epi16(sa, sb), _mm256_set1_epi16(128));
    return _mm256_testz_si256(over, over);
  }

  static size_t weight_elements(int quads) { return size_t(quads) * 128; }

  // Weights and x offset of each step; returns their number.
  static int arrange(const int8_t *stored, const MacRun *runs, int count, int64_t copy_step, int32_t *steps,
                     int8_t *dst) {
    const __m256i even = _mm256_set1_epi16(0xff);
    int n = 0;
    for (int r = 0; r < count; ++r)
      for (int i = 0; i < runs[r].quads; ++i) {
        const int8_t *w = stored + int64_t(runs[r].w + i) * 64;
        __m256i a = _mm256_loadu_si256((const __m256i *)w), b = _mm256_loadu_si256((const __m256i *)(w + 32));
        int32_t x = runs[r].x + 4 * i;
        int way = 0;
        __m256i c = a, d = b;
        while (!safe(c, d) && ++way < 3) c = _mm256_shuffle_epi8(a, order(way)), d = _mm256_shuffle_epi8(b, order(way));
        if (way == 3) {
          put(dst + 64 * n, _mm256_and_si256(a, even), _mm256_and_si256(b, even)), steps[n++] = x;
          c = _mm256_andnot_si256(even, a), d = _mm256_andnot_si256(even, b), way = 0;
        }
        put(dst + 64 * n, c, d), steps[n++] = x + int32_t(way * copy_step);
      }
    return n;
  }

  static void put(int8_t *dst, __m256i a, __m256i b) {
    _mm256_store_si256((__m256i *)dst, a);
    _mm256_store_si256((__m256i *)(dst + 32), b);
  }

  // Is this road the shorter one? It needs pixels to pay for arranging, and weights that mostly need one step, judged
  // by the first block.
  static bool suits(const MacTask &t) {
    const int quads = t.kh * t.kw * mac_quads(t.in_c / t.group), sample = mac_min(quads, 64);
    if (t.oh * t.ow < 40) return false;
    int steps = 0;
    for (int q = 0; q < sample; ++q) {
      const int8_t *w = t.w + q * 64;
      const __m256i a = _mm256_loadu_si256((const __m256i *)w), b = _mm256_loadu_si256((const __m256i *)(w + 32));
      bool one = safe(a, b);
      for (int way = 1; way < 3 && !one; ++way)
        one = safe(_mm256_shuffle_epi8(a, order(way)), _mm256_shuffle_epi8(b, order(way)));
      steps += one ? 1 : 2;
    }
    return steps * 4 <= sample * 5;
  }

  static void tile(const MacTask &t, int n, int, const uint8_t *const *p, const int32_t *steps, int64_t count,
                   const int8_t *w, int64_t, const BlockOut *out, int8_t *const *y, int c) {
    __m256i sums[kPixels][2];
    int64_t x;
    if (count == 0)
      avx2_fill(n, out->bias, sums);
    else
      switch (n) {
        case 1: AVX2_BYTE_SUMS(1); break;
        case 2: AVX2_BYTE_SUMS(2); break;
        case 3: AVX2_BYTE_SUMS(3); break;
        case 4: AVX2_BYTE_SUMS(4); break;
        case 5: AVX2_BYTE_SUMS(5); break;
        default: AVX2_BYTE_SUMS(6); break;
      }
    avx2_finish(t, *out, n, sums, y, c);
  }
};
}  // namespace
}  // namespace axtool
