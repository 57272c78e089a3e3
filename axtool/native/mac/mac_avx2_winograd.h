// AVX2: 3x3 convolution of stride 1 by Winograd's F(2x2, 3x3), in exact integers.
//
// Four outputs cost 16 products a channel instead of 36. With the weight matrix doubled, G' = 2G, all numbers are
// integers: Y = A^T [(G' g G'^T) * (B^T d B)] A is 4 times the sum. |B^T d B| <= 512 and |G' g G'^T| <= 1152 fit int16.
// 4 * sum must not leave int32 for the division to be exact: |sum| <= 9 * 2^14 * channels allows 3640 channels.
//
// The 16 products of the transformed numbers are 16 matrix products over the channels, each done by avx2_sums.
#pragma once
#include "mac_avx2_finish.h"
#include "mac_avx2_sums.h"
#include "mac_conv.h"

namespace axtool {
namespace {

// The four combinations that the input transform takes along one axis, and the weight transform, and the output's two.
inline void winograd_input(const __m256i *d, int step, __m256i *v, int out) {
  v[0] = _mm256_sub_epi16(d[0], d[2 * step]);
  v[out] = _mm256_add_epi16(d[step], d[2 * step]);
  v[2 * out] = _mm256_sub_epi16(d[2 * step], d[step]);
  v[3 * out] = _mm256_sub_epi16(d[step], d[3 * step]);
}

inline void winograd_weights(__m256i g0, __m256i g1, __m256i g2, __m256i *u, int out) {
  const __m256i outer = _mm256_add_epi16(g0, g2);
  u[0] = _mm256_add_epi16(g0, g0);
  u[out] = _mm256_add_epi16(outer, g1);
  u[2 * out] = _mm256_sub_epi16(outer, g1);
  u[3 * out] = _mm256_add_epi16(g2, g2);
}

inline void winograd_output(const __m256i *m, int step, __m256i *y, int out) {
  y[0] = _mm256_add_epi32(_mm256_add_epi32(m[0], m[step]), m[2 * step]);
  y[out] = _mm256_sub_epi32(_mm256_sub_epi32(m[step], m[2 * step]), m[3 * step]);
}

// I: the direct convolution's instruction set, for its expand and prepare.
template <class I>
struct WinogradDriver {
  static constexpr int64_t kInputBytes = 160 << 10;  // transformed input of a band, or
  static constexpr int kLeastTiles = 64;             // as many tiles as make the weights' transform small beside them
  static constexpr int kChunk = 24;                  // tiles whose products are kept: 24 KB

  static bool suits(const MacTask &t) {
    const int cin = t.in_c / t.group;
    return t.kind == MacKind::conv && t.kh == 3 && t.kw == 3 && t.sh == 1 && t.sw == 1 && t.dh == 1 && t.dw == 1 &&
           cin >= 24 && cin <= 3640 && t.oh * t.ow >= 16;
  }

  const MacTask &t;
  MacTask even;           // the box with whole tiles; pixels it adds are computed and not stored
  const int tiles_x, tile_rows;
  int band_tile_rows;
  int16_t *input, *weights;  // [16][tiles][pixel] and [16][quads][64], a position input_step, weight_step further
  int64_t input_step, weight_step;
  int32_t *products;      // [16][kChunk][16]
  ConvDriver<I> direct;   // its band and its walk over groups and blocks
  size_t scratch_bytes;

  static MacTask whole_tiles(MacTask t) {
    t.oh = (t.oh + 1) / 2 * 2, t.ow = (t.ow + 1) / 2 * 2;
    return t;
  }
  int tile_rows_for(int pixel) const {
    const int64_t row = int64_t(tiles_x) * 16 * pixel * 2, least = (kLeastTiles + tiles_x - 1) / tiles_x;
    const int fit = int(mac_clamp(kInputBytes / row, mac_min(int(least), tile_rows), tile_rows));
    const int bands = (tile_rows + fit - 1) / fit;
    return (tile_rows + bands - 1) / bands;
  }

  WinogradDriver(const MacTask &task, void *scratch)
      : t(task), even(whole_tiles(task)), tiles_x(even.ow / 2), tile_rows(even.oh / 2),
        band_tile_rows(tile_rows_for(mac_quads(t.in_c / t.group) * 4)),
        direct(even, scratch, 2 * band_tile_rows) {
    Carve carve{static_cast<char *>(scratch), direct.scratch_bytes};
    // 16 streams a power of two apart would share one set of the cache: a line more sets them apart
    input_step = (int64_t(band_tile_rows) * tiles_x * direct.pixel + 31) / 32 * 32 + 32;
    weight_step = int64_t(direct.quads) * 64 + 32;
    input = static_cast<int16_t *>(carve.take(size_t(16 * input_step) * 2));
    weights = static_cast<int16_t *>(carve.take(size_t(16 * weight_step) * 2));
    products = static_cast<int32_t *>(carve.take(size_t(16) * kChunk * 64));
    scratch_bytes = carve.used;
  }

  void run() {
    if (direct.by_value) I::list_values(t, direct.by_value);
    const int cout = direct.cout, cin = direct.cin, end = t.oc + t.on, blocks = mac_blocks(cout);
    const int first_block = t.oc / cout * blocks + t.oc % cout / 16;
    for (int row = 0; row < tile_rows; row += band_tile_rows) {
      const int rows = mac_min(band_tile_rows, tile_rows - row);
      const MacBand plan =
          mac_plan_band(even, 2 * row, 2 * rows, direct.pixel, direct.quads, true, direct.phases, direct.runs);
      for (int group = t.oc / cout; group * cout < end; ++group) {
        direct.fill_band(plan, group * cin);
        transform_input(rows, plan.in_cols);
        const int c0 = mac_max(t.oc, group * cout), c1 = mac_min(end, (group + 1) * cout);
        for (int c = c0; c < c1; c += 16)
          run_block(row, rows, group * blocks + (c - group * cout) / 16 - first_block, c - t.oc, mac_min(16, c1 - c));
      }
    }
  }

  void transform_input(int rows, int cols) {
    const int pixel = direct.pixel, tiles = rows * tiles_x;
    for (int i = 0; i < tiles; ++i) {
      const int16_t *from = direct.band + (i / tiles_x * 2 * int64_t(cols) + i % tiles_x * 2) * pixel;
      int16_t *to = input + int64_t(i) * pixel;
      int c = 0;
      for (; c + 16 <= pixel; c += 16) transform_tile<16>(from + c, int64_t(cols) * pixel, to + c);
      for (; c < pixel; c += 4) transform_tile<4>(from + c, int64_t(cols) * pixel, to + c);
    }
  }

  // N channels of one 4x4 patch -> one value for each of the 16 products.
  template <int N>
  void transform_tile(const int16_t *from, int64_t row, int16_t *to) const {
    __m256i d[16], rows[16], v[16];
    for (int i = 0; i < 16; ++i) {
      const int16_t *p = from + i / 4 * row + i % 4 * direct.pixel;
      d[i] = N == 16 ? _mm256_loadu_si256((const __m256i *)p)
                     : _mm256_castsi128_si256(_mm_loadl_epi64((const __m128i *)p));
    }
    for (int i = 0; i < 4; ++i) winograd_input(d + i, 4, rows + i, 4);
    for (int i = 0; i < 4; ++i) winograd_input(rows + 4 * i, 1, v + 4 * i, 1);
    for (int i = 0; i < 16; ++i) {
      if (N == 16)
        _mm256_storeu_si256((__m256i *)(to + i * input_step), v[i]);
      else
        _mm_storel_epi64((__m128i *)(to + i * input_step), _mm256_castsi256_si128(v[i]));
    }
  }

  void transform_weights(const int8_t *from) {
    for (int quad = 0; quad < direct.quads; ++quad) {
      alignas(64) int16_t taps[9][64];
      for (int i = 0; i < 9; ++i) I::prepare(from + (int64_t(i) * direct.quads + quad) * 64, taps[i], 1);
      for (int at = 0; at < 64; at += 16) {
        __m256i g[9], rows[12], u[16];
        for (int i = 0; i < 9; ++i) g[i] = _mm256_load_si256((const __m256i *)(taps[i] + at));
        for (int i = 0; i < 3; ++i) winograd_weights(g[i], g[3 + i], g[6 + i], rows + i, 3);
        for (int i = 0; i < 4; ++i) winograd_weights(rows[3 * i], rows[3 * i + 1], rows[3 * i + 2], u + 4 * i, 1);
        for (int i = 0; i < 16; ++i) _mm256_store_si256((__m256i *)(weights + i * weight_step + quad * 64 + at), u[i]);
      }
    }
  }

  void run_block(int row, int rows, int block, int c, int channels) {
    transform_weights(t.w + int64_t(block) * 9 * direct.quads * 64);
    BlockOut out;
    mac_set_out(&out, t.params + int64_t(block) * 64, channels, direct.by_value);
    const int tiles = rows * tiles_x;
    const int chunks = (tiles + kChunk - 1) / kChunk;
    for (int i = 0, first = 0; i < chunks; ++i) {
      const int count = (tiles - first) / (chunks - i);
      multiply(first, count);
      for (int k = 0; k < count; ++k) finish_tile(out, k, row + (first + k) / tiles_x, (first + k) % tiles_x, c);
      first += count;
    }
  }

  void multiply(int first, int count) {
    const MacRun run = {0, 0, direct.quads};
    const int32_t zero[16] = {};
    const int groups = (count + I::kPixels - 1) / I::kPixels;
    for (int position = 0; position < 16; ++position) {
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
    __m256i sums[4][2];
    for (int half = 0; half < 2; ++half) {
      __m256i m[16], rows[8], y[4];
      for (int i = 0; i < 16; ++i) m[i] = avx2_load(products + (i * kChunk + k) * 16 + 8 * half);
      for (int i = 0; i < 4; ++i) winograd_output(m + i, 4, rows + i, 4);
      for (int i = 0; i < 2; ++i) winograd_output(rows + 4 * i, 1, y + 2 * i, 1);
      const __m256i bias = avx2_load(out.params + 8 * half);
      for (int i = 0; i < 4; ++i) sums[i][half] = _mm256_add_epi32(_mm256_srai_epi32(y[i], 2), bias);
    }
    int8_t *to = t.y + 2 * tile_y * t.y_row + 2 * tile_x * t.y_pixel;
    int8_t *const y[4] = {to, to + t.y_pixel, to + t.y_row, to + t.y_row + t.y_pixel};
    const bool right = 2 * tile_x + 1 < t.ow, below = 2 * tile_y + 1 < t.oh;
    if (right) return avx2_finish(t, out, below ? 4 : 2, sums, y, c);
    avx2_finish(t, out, 1, sums, y, c);
    if (below) avx2_finish(t, out, 1, sums + 2, y + 2, c);
  }
};
}  // namespace
}  // namespace axtool
