// A buffer of the device, as every postamble kernel reads it.
#pragma once
#include <cstdint>
#include <stdexcept>

namespace axtool::postamble {

// Bytes (height, width, channels), of which the pixels inside the padding are read.
struct Source {
  int64_t height, width, channels;
  int64_t top, left, before;           // padding in front of rows, columns and channels
  int64_t rows, cols, inside_channels;  // without padding

  int64_t row_bytes() const { return width * channels; }
  int64_t bytes() const { return height * row_bytes(); }
  const int8_t *pixels(const int8_t *data, int64_t y) const {
    return data + ((top + y) * width + left) * channels + before;
  }
};

inline void want(bool holds, const char *what) {
  if (!holds) throw std::invalid_argument(what);
}

inline int checked_threads(int threads) {
  want(threads >= 1 && threads <= 256, "threads: want 1 to 256");
  return threads;
}

constexpr int64_t kMostSide = int64_t(1) << 24;  // of a buffer: sums and products of sides stay far inside 64 bits

// Throws std::invalid_argument for sizes that no buffer has, or padding that does not fit.
inline const Source &checked(const Source &s) {
  for (int64_t size :
       {s.height, s.width, s.channels, s.top, s.left, s.before, s.rows, s.cols, s.inside_channels})
    want(size >= 0 && size <= kMostSide, "source: a size out of range");
  want(s.top + s.rows <= s.height && s.left + s.cols <= s.width && s.before + s.inside_channels <= s.channels,
       "source: the padding does not fit");
  return s;
}

}  // namespace axtool::postamble
