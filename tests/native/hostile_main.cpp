// Steps, strips and labels of any numbers: what is not refused must stay inside its buffers. Built with sanitizers.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <stdexcept>

#include "mac/mac.h"
#include "postamble/heads.h"
#include "postamble/labels.h"
#include "postamble/steps.h"

namespace axtool {
// what mac_dispatch.cpp says, without the kernels of layers
bool isa_available(Isa isa) { return isa == Isa::avx2 && __builtin_cpu_supports("avx2"); }
}  // namespace axtool

using namespace axtool::postamble;

static std::mt19937 dice(7);
static int64_t any(int64_t low, int64_t high) { return low + int64_t(dice() % uint64_t(high - low + 1)); }
static bool rarely() { return any(0, 59) == 0; }

static const int64_t odd[] = {-1, 0, 1, 2, 3, int64_t(1) << 24, int64_t(1) << 28, (int64_t(1) << 28) + 1,
                              int64_t(1) << 40, INT64_MAX, INT64_MIN, INT64_MAX - 3};
// The number, or now and then another one.
static int64_t near(int64_t n) {
  return rarely() ? odd[any(0, 11)] : any(0, 39) == 0 ? n + any(-2, 2) : n;
}

static std::vector<float> floats(int64_t count) {
  std::vector<float> made(size_t(rarely() ? any(0, 9) : count));
  for (float &x : made) x = rarely() ? (any(0, 1) ? HUGE_VALF : NAN) : float(any(-100, 100)) / 7;
  return made;
}

static Source some_source(int64_t channels) {
  const int64_t rows = any(1, 5), cols = any(1, 40), pads[] = {any(0, 2), any(0, 2), any(0, 2), any(0, 2), any(0, 2), any(0, 3)};
  return {near(rows + pads[0] + pads[3]), near(cols + pads[1] + pads[4]), near(channels + pads[2] + pads[5]),
          near(pads[0]), near(pads[1]), near(pads[2]), near(rows), near(cols), near(channels)};
}

// Buffers of exactly the bytes that were described: one beyond is another's.
template <class Frame>
static void run(Frame &frame) {
  std::vector<std::vector<int8_t>> buffers;
  std::vector<std::vector<float>> outputs;
  std::vector<const int8_t *> from;
  std::vector<float *> to;
  for (const Source &s : frame.sources()) {
    if (s.bytes() > 1 << 20) return;
    buffers.emplace_back(size_t(s.bytes()));
    for (int8_t &q : buffers.back()) q = int8_t(any(-128, 127));
    buffers.back().shrink_to_fit();
  }
  for (int64_t n : frame.targets()) {
    if (n > 1 << 20) return;
    outputs.emplace_back(size_t(n));
  }
  for (auto &buffer : buffers) from.push_back(buffer.data());
  for (auto &output : outputs) to.push_back(output.data());
  frame.run(from, to);
}

static ByteFunctions some_functions(int64_t count, bool grid) {
  ByteFunctions made;
  for (int64_t i = 0; i < count; ++i) made.kinds.push_back(ByteKind(rarely() ? any(-2, 9) : any(0, 5)));
  if (!grid)
    for (ByteKind &kind : made.kinds)
      if (kind == ByteKind::grid_x || kind == ByteKind::grid_y) kind = ByteKind::table;
  made.tables = floats(256 * count), made.params = floats(27 * count);
  return made;
}

static bool one_frame_of_steps(const std::string &backend) {
  Steps frame(backend, int(any(1, 3)));
  const int64_t bins = any(1, 20), channels = any(0, 1) ? 4 * bins : any(1, 90);
  const Source s = some_source(channels);
  frame.add_source(s);
  Source angle = s;
  angle.channels = angle.before + 1, angle.inside_channels = 1;
  frame.add_source(angle);
  const int64_t pixels = s.rows * s.cols;
  const bool planes = any(0, 1);
  for (int64_t step = any(1, 3); step-- > 0;) {
    const bool box = any(0, 1) && channels == 4 * bins;
    const int64_t begin = box ? 0 : any(0, channels - 1), wide = box ? 4 : channels - begin;
    const int64_t first = near(begin), count = near(wide);
    const int64_t target = int64_t(frame.targets().size());
    frame.add_target(near(pixels * wide));
    const Placed to = {near(target), near(0), near(planes ? 1 : wide), near(planes ? pixels : 1)};
    if (box) {
      const bool turned = any(0, 1);
      frame.add(BoxStep{near(0), near(bins), near(turned ? 1 : -1), any(0, 1) == 1, 8, to, some_functions(near(1) & 3, false),
                        some_functions(turned ? 2 : 0, false), floats(2 * pixels)});
    } else {
      ByteFunctions functions = some_functions(any(1, 3), any(0, 2) == 0);
      bool grid = false;
      for (ByteKind kind : functions.kinds) grid |= kind == ByteKind::grid_x || kind == ByteKind::grid_y;
      frame.add(MapStep{near(0), first, count, to, functions, floats(grid ? 2 * pixels : 0)});
    }
  }
  run(frame);
  return true;
}

static bool one_frame_of_strips(const std::string &backend) {
  Heads frame(backend, int(any(1, 3)));
  const Kind kind = Kind(any(0, 7));
  const bool box = kind == Kind::grid_box || kind == Kind::corner_box;
  Strip s{};
  s.kind = kind;
  const int64_t anchors = any(1, 4), first = any(0, 2), count = box ? 4 : kind == Kind::softmax_pair ? 2 : any(1, 70);
  const int64_t group = first + count + any(0, 2);
  const Source from = some_source(anchors * group);
  frame.add_source(from);
  const int64_t pixels = from.rows * from.cols;
  frame.add_target(near(pixels * anchors * count));
  s.source = near(0), s.target = near(0);
  s.anchors = near(anchors), s.first = near(first), s.count = near(count), s.group = near(group);
  s.offset = near(0), s.anchor_step = near(count), s.pixel_step = near(anchors * count);
  s.columns_first = any(0, 1);
  s.table = floats(kind == Kind::softmax_pair ? 1022 : box ? 512 : 256);
  s.factors = floats(any(0, 1) ? 24 : 0);
  s.sizes = floats(2 * anchors), s.rows = floats(from.rows & 0xffff), s.cols = floats(from.cols & 0xffff), s.steps = floats(2);
  frame.add_strip(s);
  run(frame);
  return true;
}

static void one_map_of_labels(const LabelLoops &loops) {
  const int64_t h = any(1, 6), w = any(1, 40), c = any(1, 70), apart = c + any(0, 3), factor = any(1, 9);
  std::vector<int8_t> bytes(size_t((h * w - 1) * apart + c));
  for (int8_t &q : bytes) q = int8_t(any(-128, 127));
  std::vector<int64_t> labels(size_t(h * w * factor * factor), -1);
  const int64_t parted = any(0, int(h) + 1);
  for (const auto &[first, last] : {std::pair(int64_t(0), parted), std::pair(parted, h + 1)})
    loops.labels({bytes.data(), h, w, c, w * apart, apart}, factor, first, last, labels.data());
  for (int64_t label : labels)
    if (label < 0 || label >= c) std::abort();
}

int main(int argc, char **argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 3000;
  int taken = 0, refused = 0;
  for (int round = 0; round < rounds; ++round) {
    for (const std::string &backend : byte_backends()) try {
        taken += one_frame_of_steps(backend);
      } catch (const std::invalid_argument &) { ++refused; }
    for (const std::string &backend : head_backends()) try {
        taken += one_frame_of_strips(backend);
      } catch (const std::invalid_argument &) { ++refused; }
    one_map_of_labels(labels_portable);
    if (__builtin_cpu_supports("avx2")) one_map_of_labels(labels_avx2);
  }
  std::printf("%d taken, %d refused\n", taken, refused);
  return taken > rounds / 4 && refused > rounds / 4 ? 0 : 1;
}
