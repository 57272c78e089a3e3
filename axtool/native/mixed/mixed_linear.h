// fp16_linear of a box, for an instruction set I: bands of pixels, their inputs as float32 that fp16 holds, against blocks
// of 16 channels. A sum is begun at 0 and takes one product after the other; kInputs of them at a time, so that the
// weights of a block stay in the first cache as float32.
//
// I gives:
//   kPixels                          most pixels of one call of `sums`
//   widen(src, dst, n)               n fp16 -> float32
//   narrow(src, scale, dst, n)       n fx32 of 1 / scale steps -> fp16 -> float32
//   sums(n, x, w, k, acc)            acc[p][c] += x[p][i] * w[i][c], i = 0 .. k - 1 in this order, 16 channels
//   finish(t, acc, bias, n, y)       n of 16 sums -> numbers of the output
#pragma once
#include <algorithm>

#include "mixed_scalar.h"

namespace axtool {
namespace {

constexpr int kLinearInputs = 256;
constexpr int64_t kLinearBand = 256 << 10;  // bytes of the inputs of a band

// Sums, their biases -> fx32 or fp16 numbers at y.
inline void linear_finish(const LinearTask &t, const float *acc, const float *bias, int n, int8_t *y) {
  const float scale = power_of_two(t.f);
  for (int c = 0; c < n; ++c) {
    float v = acc[c] + bias[c];
    if (t.relu) v = v > 0 ? v : 0;
    if (t.out_bytes == 4) mixed_store(y, c, float_to_fx(v, scale));
    else mixed_store(y, c, float_to_half(v));
  }
}

// The sums of n pixels, at most 6, each number of which a register block of I has.
template <class I>
inline void sums_of_pixels(int n, const float *const *x, const float *w, int k, float *acc) {
  switch (n) {
    case 1: return I::template sums_of<1>(x, w, k, acc);
    case 2: return I::template sums_of<2>(x, w, k, acc);
    case 3: return I::template sums_of<3>(x, w, k, acc);
    case 4: return I::template sums_of<4>(x, w, k, acc);
    case 5: return I::template sums_of<5>(x, w, k, acc);
    default: return I::template sums_of<6>(x, w, k, acc);
  }
}

template <class I>
struct LinearDriver {
  const LinearTask &t;
  const int pixels, band;        // of the tile, and of a band
  const int inputs;              // of a step
  const int row;                 // numbers from one pixel's inputs to the next one's: no power of two, which caches mind
  float *x, *w, *acc;            // [band][row], [inputs][16], [band][16]
  float quantized[256];          // of int8 inputs: what each becomes

  static size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

  LinearDriver(const LinearTask &task, void *scratch)
      : t(task), pixels(task.oh * task.ow), band(band_of(task)), inputs(std::min(task.k, kLinearInputs)),
        row((task.k + 15) / 16 * 16 + 16) {
    char *at = static_cast<char *>(scratch);
    x = reinterpret_cast<float *>(at), at += x_bytes();
    w = reinterpret_cast<float *>(at), at += aligned(size_t(inputs) * 64);
    acc = reinterpret_cast<float *>(at);
  }

  static int band_of(const LinearTask &task) {
    const int64_t most = std::max<int64_t>(kLinearBand / (int64_t(task.k) * 4), 2 * I::kPixels) / I::kPixels * I::kPixels;
    return int(std::min<int64_t>(most, int64_t(task.oh) * task.ow));
  }

  size_t x_bytes() const { return aligned(size_t(band) * size_t(row) * 4); }
  size_t scratch_bytes() const { return x_bytes() + aligned(size_t(inputs) * 64) + size_t(band) * 64; }

  void run() {
    if (t.x_bytes == 1)
      for (int q = -128; q < 128; ++q)
        quantized[q + 128] = half_to_float(float_to_half(fx_to_float(fx_dequantized(t.from_int8, q), power_of_two(-t.f_x))));
    for (int first = 0; first < pixels; first += band) {
      const int count = std::min(band, pixels - first);
      for (int p = 0; p < count; ++p) read_pixel(first + p, x + int64_t(p) * row);
      for (int c = 0; c < t.n; c += 16) run_block(first, count, c);
    }
  }

  void read_pixel(int p, float *dst) const {
    const int8_t *src = t.x + p / t.ow * t.x_row + p % t.ow * t.x_pixel;
    if (t.x_bytes == 2) I::widen(src, dst, t.k);
    else if (t.x_bytes == 4) I::narrow(src, power_of_two(-t.f_x), dst, t.k);
    else
      for (int i = 0; i < t.k; ++i) dst[i] = quantized[src[i] + 128];
  }

  void run_block(int first, int count, int c) {
    const int8_t *weights = t.w + int64_t(c / 16) * t.k * 32, *biases = t.bias + int64_t(c / 16) * t.bias_rows * 64;
    std::fill(acc, acc + int64_t(count) * 16, 0.0f);
    for (int k = 0; k < t.k; k += inputs) {
      const int step = std::min(inputs, t.k - k);
      I::widen(weights + int64_t(k) * 32, w, step * 16);
      for (int p = 0; p < count; p += I::kPixels) {
        const float *rows[I::kPixels];
        const int n = std::min(I::kPixels, count - p);
        for (int i = 0; i < n; ++i) rows[i] = x + int64_t(p + i) * row + k;
        I::sums(n, rows, w, step, acc + int64_t(p) * 16);
      }
    }
    for (int i = 0; i < count; ++i) {
      const int p = first + i;
      const int64_t place = (t.oy + p / t.ow) * t.width + t.ox + p % t.ow;
      alignas(64) float bias[16];
      memcpy(bias, biases + (t.bias_rows == 1 ? 0 : place) * 64, sizeof bias);
      I::finish(t, acc + int64_t(i) * 16, bias, std::min(16, t.n - c),
                t.y + p / t.ow * t.y_row + p % t.ow * t.y_pixel + int64_t(c) * t.out_bytes);
    }
  }
};

}  // namespace
}  // namespace axtool
