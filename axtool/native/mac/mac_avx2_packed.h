// AVX2: convolution with frozen weights, in groups of up to 11 pixels and chunks of the input (see
// mac_avx2_packed_sums.h for what is multiplied).
//
// The pixels of a group are packed chunk by chunk, each in four copies: its bytes in the three orders that make pairs,
// and once for steps on int16. A chunk's copies and the weights that pass by fit the first cache; sums of a group wait in
// memory for their next chunk.
#pragma once
#include "mac_avx2_bytes.h"
#include "mac_avx2_packed_sums.h"

namespace axtool {
namespace {

// The band of a packed convolution: bytes, one copy, no weights of its own.
struct Avx2Band : Avx2Bytes {
  static constexpr int kCopies = 1;
  static size_t weight_elements(int) { return 0; }
};

struct Avx2Packed {
  static constexpr int kPixels = 11, kStride = 48;        // bytes of a packed quad
  static constexpr int kCopies = 4, kMixed = 3, kChunk = 128;  // quads of a chunk, at most
  static constexpr int kBlocks = 32;                      // of 16 channels, at most, between two looks at a group's pixels
  static constexpr int64_t kWeightBytes = 160 << 10, kPixelBytes = 16 << 10;
  using Sums = __m256i[kPixels][2];

  static int quads_of(const MacTask &t) { return t.kh * t.kw * mac_quads(t.in_c); }
  static int chunks_of(int quads) { return (quads + kChunk - 1) / kChunk; }
  static int first_quad(int quads, int chunk) { return int(int64_t(quads) * chunk / chunks_of(quads)); }
  static bool suits(const MacTask &t) {
    return t.kind == MacKind::conv && t.group == 1 && quads_of(t) <= 4096;  // a group within the second cache
  }
  // Measured: few quads find no partners, and few channels do not pay for packing the pixels. Up to 32 quads of one tap
  // are faster in mac_avx2_direct.h, which wants no table.
  static bool gains(const MacTask &t) {
    const bool direct = t.act == 0 && t.kh * t.kw == 1 && t.oh * t.ow >= 40 && mac_blocks(t.on) <= 48;
    const int least = direct ? 33 : 32;
    return t.oh * t.ow >= 8 && quads_of(t) >= least && quads_of(t) * mac_blocks(t.on) >= 320;
  }

  const MacTask &t;
  ConvDriver<Avx2Band> band;
  const int quads, chunks, blocks;
  const int64_t chunk_bytes;  // of a group
  const int some;             // blocks whose weights of a chunk stay in the second cache
  const bool whole;           // the sums of all blocks are kept, and only one chunk of packed pixels
  const int kept;             // blocks that keep sums
  const int most_groups;
  uint8_t *packed;            // [chunk, if not whole][group][copy][quad][12][4]
  Sums *sums;                 // [group][block]
  BlockOut *outs;             // [block]
  size_t scratch_bytes;

  Avx2Packed(const MacTask &task, void *scratch)
      : t(task), band(task, scratch, rows_of(task)), quads(quads_of(t)), chunks(chunks_of(quads)),
        blocks(mac_blocks(t.on)), chunk_bytes(int64_t((quads + chunks - 1) / chunks) * kCopies * kStride),
        some(int(mac_clamp(kWeightBytes * kCopies * kStride / (chunk_bytes * 80), 1, kBlocks))),
        whole(chunks > 1 && blocks * int64_t(sizeof(Sums)) <= chunks * chunk_bytes), kept(whole ? blocks : some),
        most_groups(groups_of(band.band_rows * t.ow)) {
    Carve carve{static_cast<char *>(scratch), band.scratch_bytes};
    packed = static_cast<uint8_t *>(carve.take(size_t(most_groups * (whole ? 1 : chunks) * chunk_bytes)));
    sums = static_cast<Sums *>(carve.take(sizeof(Sums) * (chunks > 1 ? size_t(most_groups) * kept : 1)));
    outs = static_cast<BlockOut *>(carve.take(sizeof(BlockOut) * blocks));
    scratch_bytes = carve.used;
  }

  // Of a larger kernel only a chunk is packed at a time: its bands may be higher.
  static int rows_of(const MacTask &t) {
    return mac_band_rows(t, mac_quads(t.in_c) * 4, t.kh * t.kw > 1 ? 112 << 10 : 48 << 10);
  }
  static int groups_of(int pixels) { return (pixels + kPixels - 1) / kPixels; }
  // Groups of nearly equal size.
  static int begin(int pixels, int group) { return int(int64_t(pixels) * group / groups_of(pixels)); }

  void run() {
    if (band.own_values) Avx2Values::list_values(t, band.own_values);
    for (int first = 0; first < t.oh; first += band.band_rows) {
      const MacBand plan = mac_plan_band(t, first, mac_min(band.band_rows, t.oh - first), band.pixel, band.quads, true,
                                         band.phases, band.runs);
      if (first == 0) set_outs();
      band.list_pixels(plan);
      band.fill_band(plan, 0);
      run_band(band.phases[0].rows * band.phases[0].cols);
    }
  }

  void set_outs() {
    const int32_t *excess = t.frozen->excess + (t.oc - t.frozen->oc);
    for (int b = 0; b < blocks; ++b) {
      mac_set_out(&outs[b], t.params + int64_t(b) * 64, mac_min(16, t.on - 16 * b), band.by_value);
      band.set_bias(&outs[b], band.phases[0], nullptr);
      for (int i = 0; i < 16; ++i) outs[b].bias[i] = mac_wrap_add(outs[b].bias[i], excess[16 * b + i]);
    }
  }

  void run_band(int pixels) {
    const int groups = groups_of(pixels), together = int(mac_clamp(kPixelBytes / chunk_bytes, 1, groups));
    for (int set = 0; set < blocks; set += kept)
      for (int chunk = 0; chunk < chunks; ++chunk) {
        uint8_t *x = packed + (whole ? 0 : chunk) * most_groups * chunk_bytes;
        if (whole || set == 0)
          for (int g = 0; g < groups; ++g) pack(chunk, begin(pixels, g), begin(pixels, g + 1), x + g * chunk_bytes);
        const int end = mac_min(blocks, set + kept);
        for (int first = set; first < end; first += some)
          for (int near = 0; near < groups; near += together)
            for (int b = first; b < mac_min(end, first + some); ++b)
              for (int g = near; g < mac_min(groups, near + together); ++g)
                run_block(b, chunk, x + g * chunk_bytes, begin(pixels, g), begin(pixels, g + 1),
                          sums + (chunks > 1 ? int64_t(g) * kept + b - set : 0));
      }
  }

  void run_block(int block, int chunk, const uint8_t *x, int first, int end, Sums *to) {
    const MacFrozenSteps *steps = t.frozen->steps + int64_t((t.oc - t.frozen->oc) / 8 + 2 * block) * chunks + chunk;
    const BlockOut &out = outs[block];
    for (int half = 0; half < 2; ++half)
      avx2_packed_sums(end - first, x, steps[half * chunks], chunk ? nullptr : out.bias + 8 * half, &(*to)[0][half]);
    if (chunk == chunks - 1) avx2_finish(t, out, end - first, *to, band.to + first, 16 * block);
  }

  // A chunk of pixels [first, end) of the band, 4 quads of 4 pixels at a time: each 4 bytes are a number, so that packing
  // is a transpose. Pixels past the end repeat the last.
  void pack(int chunk, int first, int end, uint8_t *dst) const {
    const MacPhase &phase = band.phases[0];
    const int from_quad = first_quad(quads, chunk), to_quad = first_quad(quads, chunk + 1);
    for (int r = phase.first_run; r < phase.first_run + phase.runs; ++r) {
      const MacRun &run = band.runs[r];
      const int skipped = mac_max(0, from_quad - run.w), count = mac_min(run.quads, to_quad - run.w) - skipped;
      for (int p = 0; count > 0 && first + p < end; p += 4) {
        const uint8_t *from[4];
        for (int i = 0; i < 4; ++i) from[i] = band.from[mac_min(first + p + i, end - 1)] + run.x + 4 * skipped;
        pack_run(from, count, (to_quad - from_quad) * kStride, dst + int64_t(run.w + skipped - from_quad) * kStride + 4 * p);
      }
    }
  }

  // The copies are `step` bytes apart.
  static void pack_run(const uint8_t *const *from, int count, int64_t step, uint8_t *dst) {
    const __m128i signs = _mm_set1_epi16(int16_t(0x8000));
    for (int q = 0; q < count; q += 4, dst += 4 * kStride) {
      __m128i v[4];
      for (int i = 0; i < 4; ++i) v[i] = _mm_loadu_si128((const __m128i *)(from[i] + 4 * q));
      for (int copy = 0; copy < kCopies; ++copy) {
        const __m128i order = _mm256_castsi256_si128(Avx2Bytes::order(copy));
        __m128i o[4];
        for (int i = 0; i < 4; ++i)
          o[i] = copy == 0 ? v[i] : copy == kMixed ? _mm_xor_si128(v[i], signs) : _mm_shuffle_epi8(v[i], order);
        const __m128i a = _mm_unpacklo_epi32(o[0], o[1]), b = _mm_unpackhi_epi32(o[0], o[1]);
        const __m128i c = _mm_unpacklo_epi32(o[2], o[3]), d = _mm_unpackhi_epi32(o[2], o[3]);
        const __m128i quad[4] = {_mm_unpacklo_epi64(a, c), _mm_unpackhi_epi64(a, c), _mm_unpacklo_epi64(b, d),
                                 _mm_unpackhi_epi64(b, d)};
        uint8_t *to = dst + copy * step;
        for (int i = 0; i < mac_min(4, count - q); ++i) _mm_store_si128((__m128i *)(to + i * kStride), quad[i]);
      }
    }
  }
};
}  // namespace
}  // namespace axtool
