// From the bytes of a head to floats: what the postamble kernels are made of.
//
// A byte has one of 256 values, so every function of one is a table of 256 floats. Some are also written so that a
// vector unit computes them from three tables of eight entries, exp(q * s) = A[u >> 6] * B[(u >> 3) & 7] * C[u & 7] with
// u the byte as it is stored; the table of 256 holds the very same products, so that every way gives the same bits.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace axtool::postamble {

enum class ByteKind : int32_t {
  table = 0,     // y = table[u]
  linear = 1,    // y = (q - zero) * scale
  logistic = 2,  // y = 1 / (1 + A * B * C)
  grid_x = 3,    // y = ((q - zero) * scale + grid x of the pixel) * stride
  grid_y = 4,
  exponential = 5,  // y = A * B * C
};

struct ByteFunction {
  ByteKind kind;
  float scale, zero, stride;
  const float *table;    // 256, by the byte as it is stored
  const float *factors;  // 3 x 8
};

// Pixels of c bytes: h rows of w, strides in bytes.
struct Pixels {
  const int8_t *data;
  int64_t h, w, c, row, pixel;
};

// w pixels of c bytes in a line, `pixel` bytes apart. Nothing is read from `end` on, where the buffer ends.
struct Line {
  const int8_t *data;
  int64_t w, c, pixel;
  const int8_t *end;
};

// x and y of the grid points of a line; null where no function asks for them.
struct Points {
  const float *x, *y;
};

// Where pixel p, channel k goes: data[p * pixel + k * channel].
struct Floats {
  float *data;
  int64_t pixel, channel;
};

constexpr int64_t kMostBins = 64;
constexpr int64_t kTilePixels = 512;  // of a line, at most: its bytes stay in the first cache, its outputs are 2 KiB each

struct Loops {
  const char *name;
  // Channel k of every pixel through functions[k % period].
  void (*map)(const Line &, const ByteFunction *functions, int64_t period, const Points &, const Floats &);
  // The expected bin of each of four sides, (4, apart): softmax over `bins` bytes, times their numbers, summed.
  // `shifted`: the largest byte is taken to 127 first, for scales at which exp would leave the range of a float.
  void (*bins)(const Line &, int64_t bins, bool shifted, const ByteFunction &exp, float *distances, int64_t apart);
  // Left, top, right, bottom distances (4, apart) of n pixels from their grid points -> centre and size, turned by an
  // angle where cos is not null.
  void (*boxes)(const float *distances, int64_t apart, const Points &, const float *cos, const float *sin, int64_t n,
                float stride, const Floats &);
};

extern const Loops loops_portable, loops_avx2, loops_avx512, loops_neon;

std::vector<std::string> byte_backends();          // those of this build and this CPU, the best last
const Loops &loops_of(const std::string &backend);  // throws std::invalid_argument

}  // namespace axtool::postamble
