// AVX-512 VNNI: convolution of a box by vpdpbusd on x + 128 and the weights as stored.
//
// Up to 10 pixels x 32 channels of int32 in 20 registers: a step is 10 broadcasts, 2 loads of weights and 20 vpdpbusd.
// Loads and decoding then stay well under the multipliers' time even where two of them work, and 10 pointers, one
// common offset and the weights fit the general registers, so that nothing is spilled.
#pragma once
#include "mac_avx512_finish.h"
#include "mac_conv.h"

namespace axtool {
namespace {

// What ConvDriver needs to fill a band.
struct Avx512Band {
  static constexpr bool kValues = false;  // Avx512Conv has a table of its own
  using X = uint8_t;
  using W = int8_t;
  using Step = MacRun;
  static constexpr int kCopies = 1, offset = 128, kPixels = 10, kBlocks = 2;
  static constexpr int64_t kBandBytes = 160 << 10;

  static void expand(const int8_t *src, uint8_t *dst, int n) {
    const __m512i flip = _mm512_set1_epi8(int8_t(-128));
    int i = 0;
    for (; i + 64 <= n; i += 64) _mm512_storeu_si512(dst + i, _mm512_xor_si512(_mm512_loadu_si512(src + i), flip));
    for (; i + 16 <= n; i += 16)
      _mm_storeu_si128((__m128i *)(dst + i),
                       _mm_xor_si128(_mm_loadu_si128((const __m128i *)(src + i)), _mm_set1_epi8(int8_t(-128))));
    for (; i + 8 <= n; i += 8)
      _mm_storel_epi64((__m128i *)(dst + i),
                       _mm_xor_si128(_mm_loadl_epi64((const __m128i *)(src + i)), _mm_set1_epi8(int8_t(-128))));
    for (; i < n; ++i) dst[i] = uint8_t(src[i] ^ 0x80);
  }

  static size_t weight_elements(int) { return 0; }

  // Pixels of up to 4 channels to 4 bytes each, four at a time where they lie close together. Up to 12 bytes past the
  // last are written too.
  static void expand_thin(const int8_t *src, uint8_t *dst, int pixels, int64_t step, int channels) {
    const int together = step <= 4 ? 4 : 1;
    alignas(16) int8_t from[16], offset[16] = {};
    memset(from, -1, 16);  // of an odd channel out: zero
    for (int i = 0; i < 4 * together; ++i)
      if (i % 4 < channels) from[i] = int8_t(i / 4 * int(step) + i % 4), offset[i] = int8_t(-128);
    const __m128i order = _mm_load_si128((const __m128i *)from), flip = _mm_load_si128((const __m128i *)offset);
    for (; pixels > 0; pixels -= together, src += step * together, dst += 4 * together) {
      const int bytes = int(step) * (mac_min(pixels, together) - 1) + channels;
      const __m128i v = _mm_maskz_loadu_epi8(__mmask16((1u << bytes) - 1), src);
      _mm_storeu_si128((__m128i *)dst, _mm_xor_si128(_mm_shuffle_epi8(v, order), flip));
    }
  }
};

// N pixels at p against B blocks of weights, `stride` bytes apart. With each step a line of weights for later is asked
// for, `ahead` bytes further. A function of its own: inlined, its pointers are spilled.
template <int N, int B>
__attribute__((noinline)) void avx512_sums_of(const uint8_t *const *p, const MacRun *runs, int count, const int8_t *w,
                                              int64_t stride, int64_t ahead, const int32_t *bias, __m512i *sums) {
  __m512i acc[N][B];  // never passed on: arrays whose address is taken live in memory
  for (int i = 0; i < N; ++i)
    for (int b = 0; b < B; ++b) acc[i][b] = _mm512_loadu_si512(bias + 16 * b);
  for (int r = 0; r < count; ++r) {
    const int8_t *wr = w + int64_t(runs[r].w) * 64;
    const int64_t bytes = int64_t(runs[r].quads) * 4;
    const uint8_t *q[N];
    for (int i = 0; i < N; ++i) q[i] = p[i] + runs[r].x + bytes;
    for (int64_t x = -bytes; x < 0; x += 4, wr += 64) {
      __m512i weights[B];
      for (int b = 0; b < B; ++b) weights[b] = _mm512_loadu_si512(wr + b * stride);
      _mm_prefetch((const char *)wr + ahead, _MM_HINT_T1);
      if (N <= 2 && B == 2) _mm_prefetch((const char *)wr + stride + ahead, _MM_HINT_T1);
      for (int i = 0; i < N; ++i) {
        int32_t quad;
        memcpy(&quad, q[i] + x, 4);
        const __m512i v = _mm512_set1_epi32(quad);
        for (int b = 0; b < B; ++b) acc[i][b] = _mm512_dpbusd_epi32(acc[i][b], v, weights[b]);
      }
    }
  }
  for (int i = 0; i < N; ++i)
    for (int b = 0; b < B; ++b) _mm512_storeu_si512(sums + i * B + b, acc[i][b]);
}

template <int B>
void avx512_sums(int n, const uint8_t *const *p, const MacRun *runs, int count, const int8_t *w, int64_t stride,
                 int64_t ahead, const int32_t *bias, __m512i *sums) {
  switch (n) {
    case 1: return avx512_sums_of<1, B>(p, runs, count, w, stride, ahead, bias, sums);
    case 2: return avx512_sums_of<2, B>(p, runs, count, w, stride, ahead, bias, sums);
    case 3: return avx512_sums_of<3, B>(p, runs, count, w, stride, ahead, bias, sums);
    case 4: return avx512_sums_of<4, B>(p, runs, count, w, stride, ahead, bias, sums);
    case 5: return avx512_sums_of<5, B>(p, runs, count, w, stride, ahead, bias, sums);
    case 6: return avx512_sums_of<6, B>(p, runs, count, w, stride, ahead, bias, sums);
    case 7: return avx512_sums_of<7, B>(p, runs, count, w, stride, ahead, bias, sums);
    case 8: return avx512_sums_of<8, B>(p, runs, count, w, stride, ahead, bias, sums);
    case 9: return avx512_sums_of<9, B>(p, runs, count, w, stride, ahead, bias, sums);
    default: return avx512_sums_of<10, B>(p, runs, count, w, stride, ahead, bias, sums);
  }
}

struct Avx512Conv {
  static constexpr int kPixels = Avx512Band::kPixels;
  static constexpr int64_t kOutputBytes = 256 << 10;  // of a band: its lines are written more than once

  const MacTask &t;
  ConvDriver<Avx512Band> band;
  Avx512Table table;
  size_t scratch_bytes;

  Avx512Conv(const MacTask &task, void *scratch) : t(task), band(task, scratch, rows_of(task)) {
    Carve carve{static_cast<char *>(scratch), band.scratch_bytes};
    table = avx512_table(t, carve);
    scratch_bytes = carve.used;
  }

  static int rows_of(const MacTask &t) {
    const int rows = mac_band_rows(t, mac_quads(t.in_c / t.group) * 4, Avx512Band::kBandBytes);
    const int fit = int(mac_clamp(kOutputBytes / (int64_t(t.ow) * t.on), 1, t.oh));
    if (t.kind == MacKind::conv_transpose || rows <= fit) return rows;
    const int bands = (t.oh + fit - 1) / fit;
    return (t.oh + bands - 1) / bands;
  }

  void run() {
    avx512_fill_table(t, &table);
    const int cout = band.cout, end = t.oc + t.on, blocks = mac_blocks(cout);
    const int first_block = t.oc / cout * blocks + t.oc % cout / 16;
    for (int first = 0; first < t.oh; first += band.band_rows) {
      const MacBand plan = mac_plan_band(t, first, mac_min(band.band_rows, t.oh - first), band.pixel, band.quads, true,
                                         band.phases, band.runs);
      band.list_pixels(plan);
      for (int group = t.oc / cout; group * cout < end; ++group) {
        if (band.pixel == 4)
          fill_thin(plan, group * band.cin);
        else
          band.fill_band(plan, group * band.cin);
        const int c0 = mac_max(t.oc, group * cout), c1 = mac_min(end, (group + 1) * cout);
        for (int c = c0; c < c1; c += 32)
          run_blocks(plan, group * blocks + (c - group * cout) / 16 - first_block, c - t.oc, mac_min(32, c1 - c));
      }
    }
  }

  // As ConvDriver::fill_band. What is written past a row is written again with the next, or nothing.
  void fill_thin(const MacBand &plan, int channel) const {
    const int64_t row = int64_t(plan.in_cols) * 4;  // of a transposed convolution whose taps all miss: negative
    for (int r = 0; r < plan.in_rows && row > 0; ++r) {
      uint8_t *dst = band.band + r * row;
      const MacSpan inside = mac_inside(t, plan, r);
      memset(dst, t.x_zp + 128, size_t(inside.left) * 4);
      Avx512Band::expand_thin(inside.x + channel, dst + inside.left * 4, inside.right - inside.left,
                              plan.ix_step * t.x_pixel, band.cin);
      memset(dst + inside.right * 4, t.x_zp + 128, size_t(row - inside.right * 4));
    }
  }

  // One or two blocks of channels: every phase, every pixel.
  void run_blocks(const MacBand &plan, int block, int c, int channels) {
    const int64_t stride = int64_t(t.kh) * t.kw * band.quads * 64;
    const int8_t *w = t.w + block * stride;
    Avx512Out out;
    out.prepare(t.params + int64_t(block) * 64, channels, table);
    for (int i = 0, at = 0; i < plan.phases; at += band.phases[i].rows * band.phases[i].cols, ++i) {
      for (int b = 0; b < mac_blocks(channels); ++b) set_bias(out, b, band.phases[i], w + b * stride);
      if (channels > 16)
        run_pixels<2>(band.phases[i], at, w, stride, out, c);
      else
        run_pixels<1>(band.phases[i], at, w, stride, out, c);
    }
  }

  // sum over hits of (x + 128) * w + bias' = sum over all taps of x * w + bias, misses reading x_zp
  void set_bias(Avx512Out &out, int b, const MacPhase &phase, const int8_t *w) const {
    const __m512i wsum = _mm512_loadu_si512(out.params + 64 * b + 48), ones = _mm512_set1_epi8(1);
    __m512i hit = wsum;
    if (!phase.every_tap) {
      hit = _mm512_set1_epi32(0);
      for (int r = phase.first_run; r < phase.first_run + phase.runs; ++r)
        for (int i = 0; i < band.runs[r].quads; ++i)
          hit = _mm512_dpbusd_epi32(hit, ones, _mm512_loadu_si512(w + int64_t(band.runs[r].w + i) * 64));
    }
    const __m512i missed = _mm512_mullo_epi32(_mm512_sub_epi32(wsum, hit), _mm512_set1_epi32(t.x_zp));
    const __m512i bias = _mm512_add_epi32(_mm512_loadu_si512(out.params + 64 * b), missed);
    _mm512_storeu_si512(out.bias + 16 * b, _mm512_sub_epi32(bias, _mm512_slli_epi32(hit, 7)));
  }

  // All pixels of a phase (from number `at` of the list), in groups of nearly equal size. While the first two pass, the
  // weights of the next blocks come nearer: one block with the first, the other with the second.
  template <int B>
  void run_pixels(const MacPhase &phase, int at, const int8_t *w, int64_t stride, const Avx512Out &out, int c) const {
    const int end = at + phase.rows * phase.cols;
    const int groups = (end - at + kPixels - 1) / kPixels, least = (end - at) / groups, larger = (end - at) % groups;
    __m512i sums[kPixels * B];
    for (int g = 0; g < groups; ++g) {
      const int n = least + (g < larger);
      const int64_t ahead = groups == 1 ? 2048 : stride * (B + g % B);
      avx512_sums<B>(n, band.from + at, band.runs + phase.first_run, phase.runs, w, stride, ahead, out.bias, sums);
      avx512_finish<B>(t, out, n, sums, band.to + at, c);
      at += n;
    }
  }
};
}  // namespace
}  // namespace axtool
