// Split heads: what is done with every device buffer of a frame, in tiles of pixels that threads share.
// Meaning: axtool/runtime/mega/byte_steps.py, which gives the same steps to NumPy; the bits are the same on every CPU.
#pragma once
#include <string>
#include <vector>

#include "postamble/bytes.h"
#include "postamble/source.h"
#include "threads.h"

namespace axtool::postamble {

// Functions that own their tables.
struct ByteFunctions {
  std::vector<ByteKind> kinds;
  std::vector<float> tables;  // (n, 256)
  std::vector<float> params;  // (n, 27): scale, zero, stride, 3 x 8 factors
  std::vector<ByteFunction> list() const;
};

// Pixel p, channel k of a step goes to float offset + p * pixel + k * channel of a target.
struct Placed {
  int64_t target, offset, pixel, channel;
};

// Channels first .. first + count of a source, each through a function.
struct MapStep {
  int64_t source, first, count;
  Placed to;
  ByteFunctions functions;
  std::vector<float> grid;  // (2, pixels), or none
};

// Four distances of 4 * bins channels of a source, as a box; `angle` is a source of one channel, or -1.
struct BoxStep {
  int64_t source, bins, angle;
  bool shifted;
  float stride;
  Placed to;
  ByteFunctions distances;  // of a bin, or of a distance where there is but one
  ByteFunctions turn;       // cosine and sine of an angle, or none
  std::vector<float> grid;  // (2, pixels)
};

class Steps {
 public:
  Steps(const std::string &backend, int threads);  // throws std::invalid_argument
  void add_source(const Source &source);
  void add_target(int64_t floats);
  void add(MapStep step);  // these throw std::invalid_argument for what would leave a source, a target or a table
  void add(BoxStep step);
  void run(const std::vector<const int8_t *> &sources, const std::vector<float *> &targets) const;  // from any thread

  const std::vector<Source> &sources() const { return sources_; }
  const std::vector<int64_t> &targets() const { return targets_; }
  const char *backend() const { return loops_.name; }

 private:
  // Steps over the same grid, which are done tile by tile: what they write of a pixel may lie in one line.
  struct Group {
    std::vector<std::pair<bool, size_t>> steps;  // whether it is a box, and which
    int64_t rows, cols, tile;
  };
  struct Task {
    size_t group;
    int64_t first, count;  // pixels
  };
  struct Frame {
    const std::vector<const int8_t *> &sources;
    const std::vector<float *> &targets;
  };

  const Source &source(int64_t index) const;
  void check(const Placed &to, int64_t pixels, int64_t channels) const;
  void schedule(bool box, size_t step, int64_t source, int64_t pixel);
  void tile(const Task &task, const Frame &frame) const;
  void map(const MapStep &step, int64_t first, int64_t count, const Frame &frame) const;
  void box(const BoxStep &step, int64_t first, int64_t count, const Frame &frame) const;

  const Loops &loops_;
  std::vector<Source> sources_;
  std::vector<int64_t> targets_;
  std::vector<MapStep> maps_;
  std::vector<BoxStep> boxes_;
  std::vector<Group> groups_;
  std::vector<Task> tasks_;
  Hands hands_;
};

}  // namespace axtool::postamble
