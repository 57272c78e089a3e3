// AVX2: convolution with frozen weights, on bytes, up to 11 pixels x 8 channels in 11 registers.
//
// As in mac_avx2_bytes.h vpmaddubsw must not saturate: the positive weights of a pair add up to at most 128, and so do
// the negative ones. Two quads whose pairs keep to that together can be added in int16 before they are widened:
// 3 multiplications in place of 4. Which quads go together is searched once, for each 8 output channels, when the
// weights are frozen; each quad has its three ways to make pairs. A quad that is safe in no way is taken for two, which
// share its weights.
//
// The pixels of a group are packed: [way][quad][12 pixels] of 4 bytes, the last of the 12 unused, so that one register
// and a constant address every pixel, and a step is no more than two offsets and its weights.
#pragma once
#include <cstdlib>

#include "mac_avx2_bytes.h"
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
#define AVX2_START(at, A) "vmovdqu (%[bias]), %%" A "\n\t"
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

// Sums of N pixels go 64 bytes apart: the other 8 channels lie between them.
#define AVX2_PACKED_SUMS(N)                                                                                   \
  asm volatile(AVX2_EACH##N(AVX2_START) "vpcmpeqw %%ymm11, %%ymm11, %%ymm11\n\tvpsrlw $15, %%ymm11, %%ymm11\n\t" \
               "test %[doubles], %[doubles]\n\tjz 2f\n\t.p2align 4\n\t"                                       \
               "1:\n\tmovslq (%[list]), %[a]\n\tmovslq 4(%[list]), %[b]\n\t"                                  \
               "vmovdqa (%[w]), %%ymm12\n\tvmovdqa 32(%[w]), %%ymm13\n\t" AVX2_EACH##N(AVX2_DOUBLE)           \
               "add $8, %[list]\n\tadd $64, %[w]\n\tdec %[doubles]\n\tjnz 1b\n\t"                             \
               "2:\n\ttest %[singles], %[singles]\n\tjz 4f\n\t.p2align 4\n\t"                                 \
               "3:\n\tmovslq (%[list]), %[a]\n\tvmovdqa (%[w]), %%ymm12\n\t" AVX2_EACH##N(AVX2_SINGLE)        \
               "add $4, %[list]\n\tadd $32, %[w]\n\tdec %[singles]\n\tjnz 3b\n\t"                             \
               "4:\n\t" AVX2_EACH##N(AVX2_END)                                                                \
               : [a] "=&r"(a), [b] "=&r"(b), [w] "+r"(w), [list] "+r"(list), [doubles] "+r"(doubles),         \
                 [singles] "+r"(singles)                                                                      \
               : [x] "r"(x), [sums] "r"(sums), [bias] "r"(bias)                                               \
               : "memory", "cc", "ymm0", "ymm1", "ymm2", "ymm3", "ymm4", "ymm5", "ymm6", "ymm7", "ymm8",      \
                 "ymm9", "ymm10", "ymm11", "ymm12", "ymm13", "ymm14", "ymm15")

inline void avx2_packed_sums(int n, const uint8_t *x, const MacFrozenHalf &half, const int32_t *bias, __m256i *sums) {
  const int8_t *w = half.weights;
  const int32_t *list = half.offsets;
  int64_t doubles = half.doubles, singles = half.singles, a, b;
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

// The band of a packed convolution: bytes, one copy, no weights of its own.
struct Avx2Band : Avx2Bytes {
  static constexpr int kCopies = 1;
  static constexpr int64_t kBandBytes = 48 << 10;  // its packed copies take three times this and more
  static size_t weight_elements(int) { return 0; }
};

struct Avx2Packed {
  static constexpr int kPixels = 11, kStride = 48;  // bytes of a packed quad
  static constexpr int kBlocks = 32;                // of 16 channels, at most, between two looks at a group's pixels
  static constexpr int64_t kWeightBytes = 160 << 10, kPixelBytes = 16 << 10;

  static int quads_of(const MacTask &t) { return t.kh * t.kw * mac_quads(t.in_c); }
  static bool suits(const MacTask &t) {
    return t.kind == MacKind::conv && t.group == 1 && quads_of(t) <= 4096;  // a group within the second cache
  }
  // Measured: few quads find no partners, and few channels do not pay for packing the pixels.
  static bool gains(const MacTask &t) {
    return t.oh * t.ow >= 8 && quads_of(t) >= 32 && quads_of(t) * mac_blocks(t.on) >= 320;
  }

  const MacTask &t;
  ConvDriver<Avx2Band> band;
  const int quads;          // of all taps
  const int64_t group_bytes;
  uint8_t *packed;
  size_t scratch_bytes;

  Avx2Packed(const MacTask &task, void *scratch)
      : t(task), band(task, scratch), quads(quads_of(t)), group_bytes(int64_t(ways_of(quads)) * quads * kStride) {
    Carve carve{static_cast<char *>(scratch), band.scratch_bytes};
    packed = static_cast<uint8_t *>(carve.take(size_t(groups_of(band.band_rows * t.ow) * group_bytes)));
    scratch_bytes = carve.used;
  }

  // Copies of the packed pixels. With many quads to choose from two do as well, and more of them stay in the first cache.
  static int ways_of(int quads) { return quads <= 192 ? 3 : 2; }
  static int groups_of(int pixels) { return (pixels + kPixels - 1) / kPixels; }

  void run() {
    if (band.by_value) Avx2Values::list_values(t, band.by_value);
    for (int first = 0; first < t.oh; first += band.band_rows) {
      const MacBand plan = mac_plan_band(t, first, mac_min(band.band_rows, t.oh - first), band.pixel, band.quads, true,
                                         band.phases, band.runs);
      band.list_pixels(plan);
      band.fill_band(plan, 0);
      const int pixels = band.phases[0].rows * band.phases[0].cols, groups = groups_of(pixels);
      for (int g = 0; g < groups; ++g) pack(begin(pixels, g), begin(pixels, g + 1), packed + g * group_bytes);
      run_groups(pixels, groups);
    }
  }

  // The pixels of a few groups stay in the first cache while the weights of some blocks, which stay in the second, pass
  // by. A block has as many groups in turn as fit: its loops are then as long as before, which the CPU predicts.
  void run_groups(int pixels, int groups) {
    const int some = int(mac_clamp(kWeightBytes / (int64_t(quads) * 80), 1, kBlocks));
    const int together = int(mac_clamp(kPixelBytes / group_bytes, 1, groups));
    for (int c = 0; c < t.on; c += 16 * some) {
      const int blocks = mac_min(some, mac_blocks(t.on - c));
      BlockOut outs[kBlocks];
      for (int b = 0; b < blocks; ++b) {
        const int first = c + 16 * b;
        mac_set_out(&outs[b], t.params + int64_t(first / 16) * 64, mac_min(16, t.on - first), band.by_value);
        band.set_bias(&outs[b], band.phases[0], nullptr);
      }
      for (int near = 0; near < groups; near += together)
        for (int b = 0; b < blocks; ++b)
          for (int g = near; g < mac_min(groups, near + together); ++g)
            run_block(outs[b], c + 16 * b, packed + g * group_bytes, begin(pixels, g), begin(pixels, g + 1));
    }
  }

  // Groups of nearly equal size.
  static int begin(int pixels, int group) { return int(int64_t(pixels) * group / groups_of(pixels)); }

  void run_block(const BlockOut &out, int c, const uint8_t *x, int first, int end) {
    const MacFrozenHalf *halves = t.frozen->halves + (t.oc + c - t.frozen->oc) / 8;
    __m256i sums[kPixels][2];
    for (int half = 0; half < 2; ++half)
      avx2_packed_sums(end - first, x, halves[half], out.bias + 8 * half, &sums[0][half]);
    avx2_finish(t, out, end - first, sums, band.to + first, c);
  }

  // Pixels [first, end) of the band, 4 quads of 4 pixels at a time: each 4 bytes are a number, so that packing is a
  // transpose. Pixels past the end repeat the last.
  void pack(int first, int end, uint8_t *dst) const {
    const MacPhase &phase = band.phases[0];
    for (int r = phase.first_run; r < phase.first_run + phase.runs; ++r)
      for (int p = 0; first + p < end; p += 4) {
        const uint8_t *from[4];
        for (int i = 0; i < 4; ++i) from[i] = band.from[mac_min(first + p + i, end - 1)] + band.runs[r].x;
        pack_run(from, band.runs[r].quads, dst + int64_t(band.runs[r].w) * kStride + 4 * p);
      }
  }

  void pack_run(const uint8_t *const *from, int count, uint8_t *dst) const {
    for (int q = 0; q < count; q += 4, dst += 4 * kStride) {
      __m128i v[4];
      for (int i = 0; i < 4; ++i) v[i] = _mm_loadu_si128((const __m128i *)(from[i] + 4 * q));
      for (int way = 0; way < ways_of(quads); ++way) {
        __m128i o[4];
        for (int i = 0; i < 4; ++i)
          o[i] = way ? _mm_shuffle_epi8(v[i], _mm256_castsi256_si128(Avx2Bytes::order(way))) : v[i];
        const __m128i a = _mm_unpacklo_epi32(o[0], o[1]), b = _mm_unpackhi_epi32(o[0], o[1]);
        const __m128i c = _mm_unpacklo_epi32(o[2], o[3]), d = _mm_unpackhi_epi32(o[2], o[3]);
        const __m128i quad[4] = {_mm_unpacklo_epi64(a, c), _mm_unpackhi_epi64(a, c), _mm_unpacklo_epi64(b, d),
                                 _mm_unpackhi_epi64(b, d)};
        uint8_t *to = dst + int64_t(way) * quads * kStride;
        for (int i = 0; i < mac_min(4, count - q); ++i) _mm_store_si128((__m128i *)(to + i * kStride), quad[i]);
      }
    }
  }
};
}  // namespace
}  // namespace axtool
