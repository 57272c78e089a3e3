// Heads whose values keep the order of the device's bytes: strips of channels that become strips of float32.
// Meaning: axtool/runtime/mega/strips.py, which the same rows give to NumPy; the bits are the same on every CPU.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "postamble/source.h"
#include "threads.h"

namespace axtool::postamble {

enum class Kind { affine, sigmoid, tanh, softmax, table, softmax_pair, grid_box, corner_box };

// `count` channels of each anchor of each pixel of a source, and where they go in a target.
struct Strip {
  Kind kind;
  int64_t source, target;
  int64_t anchors, group, first, count;      // channel a * group + first + k of a pixel
  int64_t offset, anchor_step, pixel_step;   // float offset + p * pixel_step + a * anchor_step + k of the target
  bool columns_first = false;                // the axis of the first coordinate of a corner_box
  float scale = 1, zero = 0;                 // affine
  std::vector<float> table;                  // 256 values by raw byte; two such tables for boxes; 511 pairs for a softmax
  std::vector<float> factors;                // sigmoid, tanh, softmax: none, or 3 tables of 8 for the exponential
  std::vector<float> sizes;                  // boxes: (anchors, 2)
  std::vector<float> rows, cols;             // boxes: where the grid's lines are
  std::vector<float> steps;                  // grid_box: pixels from one column, and one row, to the next
};

// Floats of a cache line; and how far ahead a line is fetched that will be written: a processor sees reads coming by
// itself, but not every order of writes.
constexpr int64_t kLine = 16, kAhead = 512;

// One row of pixels of one strip; `out` is the place of the row's first pixel.
struct HeadLoops {
  const char *name;
  void (*row)(const Strip &strip, const int8_t *pixels, int64_t pixel_bytes, int64_t cols, int64_t y, float *out);
};
extern const HeadLoops heads_portable, heads_avx2, heads_avx512, heads_neon;

std::vector<std::string> head_backends();  // those of this build and this CPU, the best last

class Heads {
 public:
  Heads(const std::string &backend, int threads);  // throws std::invalid_argument
  void add_source(const Source &source);
  void add_target(int64_t floats);
  void add_strip(Strip strip);  // throws std::invalid_argument for what would leave a source, a target or a table
  void run(const std::vector<const int8_t *> &sources, const std::vector<float *> &targets) const;  // from any thread

  const std::vector<Source> &sources() const { return sources_; }
  const std::vector<int64_t> &targets() const { return targets_; }
  const char *backend() const { return loops_->name; }

 private:
  void row(int64_t task, const std::vector<const int8_t *> &sources, const std::vector<float *> &targets) const;

  const HeadLoops *loops_;
  std::vector<Source> sources_;
  std::vector<int64_t> targets_;
  std::vector<std::vector<Strip>> strips_;             // by source: a row is written by all while it is in the cache
  std::vector<std::pair<int64_t, int64_t>> tasks_;     // (source, row)
  Hands hands_;
};

}  // namespace axtool::postamble
