// AVX2: 3x3 convolution of stride 1 by Winograd's F(2x2, 3x3) or F(4x4, 3x3), in exact integers.
//
// Four outputs cost 16 products a channel instead of 36, or 16 outputs 36 instead of 144. The products of the transformed
// numbers (see mac_avx2_winograd_forms.h) are kIn * kIn matrix products over the channels, each done by avx2_sums.
#pragma once
#include "mac_avx2_finish.h"
#include "mac_avx2_sums.h"
#include "mac_avx2_winograd_forms.h"
#include "mac_conv.h"
#include "mac_frozen.h"

namespace axtool {
namespace {

// I: the direct convolution's instruction set, for its expand and prepare. F: the form.
template <class I, class F>
struct WinogradDriver {
  static constexpr int kTile = F::kTile, kIn = F::kIn, kPositions = kIn * kIn;
  static constexpr int64_t kFrozenBytes = 120 << 10;      // transformed input of a band, where the weights are frozen
  static constexpr int64_t kInputBytes = F::kInputBytes;  // and where they are not, or
  static constexpr int kLeastTiles = F::kLeastTiles;  // as many tiles as make the weights' transform small beside them
  static constexpr int kChunk = F::kChunk;            // tiles whose products are kept

  static bool suits(const MacTask &t) {
    const int cin = t.in_c / t.group;
    return t.kind == MacKind::conv && t.kh == 3 && t.kw == 3 && t.sh == 1 && t.sw == 1 && t.dh == 1 && t.dw == 1 &&
           cin <= F::kMaxChannels;
  }
  static bool gains(const MacTask &t) {
    return suits(t) && t.in_c / t.group >= F::kLeastChannels && t.oh * t.ow >= 16;
  }
  static int64_t weight_step_of(int quads) { return int64_t(quads) * 64 + 32; }
  static int64_t block_elements(int quads) { return kPositions * weight_step_of(quads); }
  static int block_of(const MacTask &t, int channel) {
    const int cout = t.out_c / t.group;
    return channel / cout * mac_blocks(cout) + channel % cout / 16;
  }

  static int frozen_blocks(const MacTask &t) { return block_of(t, t.oc + t.on - 1) - block_of(t, t.oc) + 1; }
  static int64_t frozen_bytes(const MacTask &t) {
    return frozen_blocks(t) * block_elements(mac_quads(t.in_c / t.group)) * 2;
  }
  static MacFrozen *freeze(const MacTask &t, MacForm form) {  // form: which one this is
    int8_t *rest;
    const int64_t bytes = frozen_bytes(t);
    MacFrozen *frozen = mac_new_frozen(t.oc, 0, size_t(bytes), &rest);
    int16_t *to = reinterpret_cast<int16_t *>(rest);
    const int quads = mac_quads(t.in_c / t.group), blocks = frozen_blocks(t);
    for (int i = 0; i < blocks; ++i)
      transform_weights(t.w + int64_t(i) * 9 * quads * 64, quads, to + i * block_elements(quads));
    frozen->bytes = size_t(bytes), frozen->form = form, frozen->transformed = to;
    return frozen;
  }

  static int tiles(const MacTask &t) { return (t.oh + kTile - 1) / kTile * ((t.ow + kTile - 1) / kTile); }

  const MacTask &t;
  MacTask even;           // the box with whole tiles; pixels it adds are computed and not stored
  const int tiles_x, tile_rows;
  int band_tile_rows;
  int16_t *input;         // [position][tiles][pixel], each position input_step further
  int16_t *own_weights = nullptr;  // of a block, [position][quads][64], each position weight_step further
  int64_t input_step, weight_step;
  int32_t *products;      // [position][kChunk][16]
  ConvDriver<I> direct;   // its band and its walk over groups and blocks
  size_t scratch_bytes;

  static MacTask whole_tiles(MacTask t) {
    t.oh = (t.oh + kTile - 1) / kTile * kTile, t.ow = (t.ow + kTile - 1) / kTile * kTile;
    return t;
  }
  int tile_rows_for(int pixel) const {
    const int64_t row = int64_t(tiles_x) * kPositions * pixel * 2, bytes = t.frozen ? kFrozenBytes : kInputBytes;
    const int least = ((t.frozen ? kChunk : kLeastTiles) + tiles_x - 1) / tiles_x;
    const int fit = int(mac_clamp(bytes / row, mac_min(least, tile_rows), tile_rows));
    const int bands = (tile_rows + fit - 1) / fit;
    return (tile_rows + bands - 1) / bands;
  }

  WinogradDriver(const MacTask &task, void *scratch)
      : t(task), even(whole_tiles(task)), tiles_x(even.ow / kTile), tile_rows(even.oh / kTile),
        band_tile_rows(tile_rows_for(mac_quads(t.in_c / t.group) * 4)),
        direct(even, scratch, kTile * band_tile_rows) {
    Carve carve{static_cast<char *>(scratch), direct.scratch_bytes};
    // streams a power of two apart would share one set of the cache: a line more sets them apart
    input_step = (int64_t(band_tile_rows) * tiles_x * direct.pixel + 31) / 32 * 32 + 32;
    weight_step = weight_step_of(direct.quads);
    input = static_cast<int16_t *>(carve.take(size_t(kPositions * input_step) * 2));
    if (!t.frozen) own_weights = static_cast<int16_t *>(carve.take(size_t(kPositions * weight_step) * 2));
    products = static_cast<int32_t *>(carve.take(size_t(kPositions) * kChunk * 64));
    scratch_bytes = carve.used;
  }

  void run() {
    if (direct.own_values) I::list_values(t, direct.own_values);
    const int cout = direct.cout, cin = direct.cin, end = t.oc + t.on;
    for (int row = 0; row < tile_rows; row += band_tile_rows) {
      const int rows = mac_min(band_tile_rows, tile_rows - row);
      const MacBand plan =
          mac_plan_band(even, kTile * row, kTile * rows, direct.pixel, direct.quads, true, direct.phases, direct.runs);
      for (int group = t.oc / cout; group * cout < end; ++group) {
        direct.fill_band(plan, group * cin);
        transform_input(rows, plan.in_cols);
        const int c0 = mac_max(t.oc, group * cout), c1 = mac_min(end, (group + 1) * cout);
        for (int c = c0; c < c1; c += 16)
          run_block(row, rows, block_of(t, c) - block_of(t, t.oc), c - t.oc, mac_min(16, c1 - c));
      }
    }
  }

  void transform_input(int rows, int cols) {
    const int pixel = direct.pixel, tiles = rows * tiles_x;
    for (int i = 0; i < tiles; ++i) {
      const int16_t *from = direct.band + (i / tiles_x * int64_t(cols) + i % tiles_x) * kTile * pixel;
      int16_t *to = input + int64_t(i) * pixel;
      int c = 0;
      for (; c + 16 <= pixel; c += 16) transform_tile<16>(from + c, int64_t(cols) * pixel, to + c);
      for (; c < pixel; c += 4) transform_tile<4>(from + c, int64_t(cols) * pixel, to + c);
    }
  }

  // N channels of one patch -> one value for each of the products.
  template <int N>
  void transform_tile(const int16_t *from, int64_t row, int16_t *to) const {
    __m256i rows[kPositions];
#pragma GCC unroll 6
    for (int x = 0; x < kIn; ++x) {
      __m256i d[kIn];
      for (int y = 0; y < kIn; ++y) {
        const int16_t *p = from + y * row + x * direct.pixel;
        d[y] = N == 16 ? _mm256_loadu_si256((const __m256i *)p)
                       : _mm256_castsi128_si256(_mm_loadl_epi64((const __m128i *)p));
      }
      F::input(d, 1, rows + x, kIn);
    }
#pragma GCC unroll 6
    for (int y = 0; y < kIn; ++y) {
      __m256i v[kIn];
      F::input(rows + kIn * y, 1, v, 1);
      for (int x = 0; x < kIn; ++x) {
        if (N == 16)
          _mm256_storeu_si256((__m256i *)(to + (y * kIn + x) * input_step), v[x]);
        else
          _mm_storel_epi64((__m128i *)(to + (y * kIn + x) * input_step), _mm256_castsi256_si128(v[x]));
      }
    }
  }

  static void transform_weights(const int8_t *from, int quads, int16_t *to) {
    const int64_t step = weight_step_of(quads);
    for (int quad = 0; quad < quads; ++quad) {
      alignas(64) int16_t taps[9][64];
      for (int i = 0; i < 9; ++i) I::prepare(from + (int64_t(i) * quads + quad) * 64, taps[i], 1);
      for (int at = 0; at < 64; at += 16) {
        __m256i g[9], rows[3 * kIn];
        for (int i = 0; i < 9; ++i) g[i] = _mm256_load_si256((const __m256i *)(taps[i] + at));
        for (int i = 0; i < 3; ++i) F::weights(g[i], g[3 + i], g[6 + i], rows + i, 3);
        for (int y = 0; y < kIn; ++y) {
          __m256i u[kIn];
          F::weights(rows[3 * y], rows[3 * y + 1], rows[3 * y + 2], u, 1);
          for (int x = 0; x < kIn; ++x)
            _mm256_store_si256((__m256i *)(to + (y * kIn + x) * step + quad * 64 + at), u[x]);
        }
      }
    }
  }

  void run_block(int row, int rows, int block, int c, int channels) {
    const int16_t *weights = own_weights;
    if (t.frozen) {
      weights = t.frozen->transformed + (block_of(t, t.oc) - block_of(t, t.frozen->oc) + block) *
                                           block_elements(direct.quads);
    } else {
      transform_weights(t.w + int64_t(block) * 9 * direct.quads * 64, direct.quads, own_weights);
    }
    BlockOut out;
    mac_set_out(&out, t.params + int64_t(block) * 64, channels, direct.by_value);
    const int tiles = rows * tiles_x;
    const int chunks = (tiles + kChunk - 1) / kChunk;
    for (int i = 0, first = 0; i < chunks; ++i) {
      const int count = (tiles - first) / (chunks - i);
      multiply(first, count, weights);
      for (int k = 0; k < count; ++k) finish_tile(out, k, row + (first + k) / tiles_x, (first + k) % tiles_x, c);
      first += count;
    }
  }

  void multiply(int first, int count, const int16_t *weights) {
    const MacRun run = {0, 0, direct.quads};
    const int32_t zero[16] = {};
    const int groups = (count + I::kPixels - 1) / I::kPixels;
    for (int position = 0; position < kPositions; ++position) {
      const int16_t *x = input + position * input_step + int64_t(first) * direct.pixel;
      const int16_t *w = weights + position * weight_step;
      __m256i(*sums)[2] = reinterpret_cast<__m256i(*)[2]>(products + position * kChunk * 16);
      for (int g = 0, at = 0; g < groups; ++g) {
        const int n = (count - at) / (groups - g);
        const int16_t *p[I::kPixels];
        for (int i = 0; i < n; ++i) p[i] = x + int64_t(at + i) * direct.pixel;
        avx2_sums(n, p, &run, 1, w, zero, sums + at);
        at += n;
      }
    }
  }

  void finish_tile(const BlockOut &out, int k, int tile_y, int tile_x, int c) const {
    __m256i sums[kTile * kTile][2];
    for (int half = 0; half < 2; ++half) {
      const int32_t *from = products + k * 16 + 8 * half;
      const __m256i bias = avx2_load(out.params + 8 * half);
      __m256i rows[kTile * kIn];
#pragma GCC unroll 6
      for (int x = 0; x < kIn; ++x) {
        __m256i m[kIn];
        for (int y = 0; y < kIn; ++y) m[y] = avx2_load(from + (y * kIn + x) * kChunk * 16);
        F::output(m, 1, rows + x, kIn);
      }
#pragma GCC unroll 4
      for (int y = 0; y < kTile; ++y) {
        __m256i q[kTile];
        F::output(rows + kIn * y, 1, q, 1);
        for (int x = 0; x < kTile; ++x)
          sums[y * kTile + x][half] = _mm256_add_epi32(F::exact(q[x], y, x), bias);
      }
    }
    const int oy = kTile * tile_y, ox = kTile * tile_x;
    const int right = mac_min(kTile, t.ow - ox), below = mac_min(kTile, t.oh - oy);
    int8_t *to = t.y + oy * t.y_row + ox * t.y_pixel, *at[kTile * kTile];
    int n = 0;
    for (int y = 0; y < below; ++y)
      for (int x = 0; x < right; ++x, ++n) {
        at[n] = to + y * t.y_row + x * t.y_pixel;
        if (right < kTile) sums[n][0] = sums[y * kTile + x][0], sums[n][1] = sums[y * kTile + x][1];
      }
    avx2_finish(t, out, n, sums, at, c);
  }
};
}  // namespace
}  // namespace axtool
