// What a list of steps checks once, and how its tiles are run.
#include "postamble/steps.h"

#include <algorithm>
#include <atomic>
#include <stdexcept>

#include "mac/mac.h"

namespace axtool::postamble {

static std::vector<const Loops *> available() {
  std::vector<const Loops *> found = {&loops_portable};
#if defined(__x86_64__)
  if (isa_available(Isa::avx2)) found.push_back(&loops_avx2);
  if (isa_available(Isa::avx512vnni)) found.push_back(&loops_avx512);
#elif defined(__aarch64__)
  found.push_back(&loops_neon);
#endif
  return found;
}

std::vector<std::string> byte_backends() {
  std::vector<std::string> names;
  for (const Loops *loops : available()) names.emplace_back(loops->name);
  return names;
}

const Loops &loops_of(const std::string &backend) {
  static const std::vector<const Loops *> known = available();
  if (backend == "auto") return *known.back();
  for (const Loops *loops : known)
    if (backend == loops->name) return *loops;
  std::string names = "auto";
  for (const Loops *loops : known) names += std::string(", ") + loops->name;
  throw std::invalid_argument("backend '" + backend + "' does not exist on this CPU; there are " + names);
}

constexpr int64_t kParams = 27;  // of a function
constexpr int64_t kMost = int64_t(1) << 28;

std::vector<ByteFunction> ByteFunctions::list() const {
  std::vector<ByteFunction> made;
  for (size_t i = 0; i < kinds.size(); ++i) {
    const float *p = params.data() + i * kParams;
    made.push_back({kinds[i], p[0], p[1], p[2], tables.data() + i * 256, p + 3});
  }
  return made;
}

static void check_functions(const ByteFunctions &f, size_t least, size_t most) {
  want(f.kinds.size() >= least && f.kinds.size() <= most, "step: another number of functions");
  want(f.tables.size() == f.kinds.size() * 256 && f.params.size() == f.kinds.size() * kParams,
       "step: want tables (n, 256) and params (n, 27) of n functions");
  for (ByteKind kind : f.kinds) want(int(kind) >= 0 && int(kind) <= 5, "step: there is no such kind of function");
}

static bool asks_for_grid(const ByteFunctions &f) {
  return std::any_of(f.kinds.begin(), f.kinds.end(),
                     [](ByteKind kind) { return kind == ByteKind::grid_x || kind == ByteKind::grid_y; });
}

Steps::Steps(const std::string &backend, int threads) : loops_(loops_of(backend)), hands_(checked_threads(threads)) {}

void Steps::add_source(const Source &s) { sources_.push_back(checked(s)); }

void Steps::add_target(int64_t floats) {
  want(floats >= 0, "target: a negative size");
  targets_.push_back(floats);
}

const Source &Steps::source(int64_t index) const {
  want(index >= 0 && index < int64_t(sources_.size()), "step: no such source");
  return sources_[size_t(index)];
}

void Steps::check(const Placed &to, int64_t pixels, int64_t channels) const {
  want(to.target >= 0 && to.target < int64_t(targets_.size()), "step: no such target");
  for (int64_t n : {to.offset, to.pixel, to.channel}) want(n >= 0 && n <= kMost, "step: a number out of range");
  want(pixels <= kMost, "step: too many pixels");
  if (pixels > 0)
    want(to.offset + (pixels - 1) * to.pixel + (channels - 1) * to.channel < targets_[size_t(to.target)],
         "step: values beyond the target");
}

void Steps::add(MapStep step) {
  const Source &from = source(step.source);
  const int64_t pixels = from.rows * from.cols;
  want(step.first >= 0 && step.first <= kMost && step.count >= 1 && step.count <= kMost, "step: want a channel");
  want(step.first + step.count <= from.inside_channels, "step: channels beyond the source");
  check(step.to, pixels, step.count);
  check_functions(step.functions, 1, size_t(step.count));
  want(step.grid.size() == (asks_for_grid(step.functions) ? size_t(2 * pixels) : 0), "step: want a grid (2, pixels)");
  maps_.push_back(std::move(step));
  schedule(false, maps_.size() - 1, maps_.back().source, maps_.back().to.pixel);
}

void Steps::add(BoxStep step) {
  const Source &from = source(step.source);
  const int64_t pixels = from.rows * from.cols;
  want(step.bins >= 1 && step.bins <= kMostBins && from.inside_channels == 4 * step.bins,
       "step: want 4 * bins channels, 1 to 64 bins");
  check(step.to, pixels, 4);
  check_functions(step.distances, 1, 1);
  check_functions(step.turn, 0, 2);
  want(!asks_for_grid(step.distances) && !asks_for_grid(step.turn), "step: a distance has no place on the grid");
  want(step.grid.size() == size_t(2 * pixels), "step: want a grid (2, pixels)");
  want((step.angle >= 0) == (step.turn.kinds.size() == 2), "step: want cosine and sine of an angle, or neither");
  if (step.angle >= 0) {
    const Source &angle = source(step.angle);
    want(angle.rows == from.rows && angle.cols == from.cols && angle.inside_channels == 1, "step: want an angle a pixel");
  }
  boxes_.push_back(std::move(step));
  schedule(true, boxes_.size() - 1, boxes_.back().source, boxes_.back().to.pixel);
}

void Steps::schedule(bool box, size_t step, int64_t source, int64_t pixel) {
  constexpr int64_t few = 64;  // pixels whose values lie side by side: a tile of them stays in the nearest caches
  const Source &from = sources_[size_t(source)];
  if (groups_.empty() || groups_.back().rows != from.rows || groups_.back().cols != from.cols)
    groups_.push_back({{}, from.rows, from.cols, kTilePixels});
  Group &group = groups_.back();
  group.steps.push_back({box, step});
  if (pixel != 1) group.tile = few;
  const size_t last = groups_.size() - 1;
  while (!tasks_.empty() && tasks_.back().group == last) tasks_.pop_back();
  const int64_t pixels = group.rows * group.cols;
  for (int64_t first = 0; first < pixels; first += group.tile)
    tasks_.push_back({last, first, std::min(group.tile, pixels - first)});
}

// body(line, its first pixel) for the stretches of a tile that lie in a line: rows, or all of it without padding.
template <class Body>
static void each_line(const Source &s, const int8_t *data, int64_t channel, int64_t channels, int64_t first,
                      int64_t count, Body body) {
  const int8_t *end = data + s.bytes();
  const int64_t in_line = s.cols == s.width ? s.rows * s.cols : s.cols;
  for (int64_t p = first; p < first + count;) {
    const int64_t row = p / in_line, x = p % in_line, w = std::min(in_line - x, first + count - p);
    body(Line{s.pixels(data, row) + x * s.channels + channel, w, channels, s.channels, end}, p);
    p += w;
  }
}

static Points points_of(const std::vector<float> &grid, int64_t p) {
  if (grid.empty()) return {nullptr, nullptr};
  return {grid.data() + p, grid.data() + grid.size() / 2 + p};
}

void Steps::map(const MapStep &step, int64_t first, int64_t count, const Frame &frame) const {
  const std::vector<ByteFunction> functions = step.functions.list();
  float *out = frame.targets[size_t(step.to.target)] + step.to.offset;
  each_line(sources_[size_t(step.source)], frame.sources[size_t(step.source)], step.first, step.count, first, count,
            [&](const Line &line, int64_t p) {
              loops_.map(line, functions.data(), int64_t(functions.size()), points_of(step.grid, p),
                         {out + p * step.to.pixel, step.to.pixel, step.to.channel});
            });
}

void Steps::box(const BoxStep &step, int64_t first, int64_t count, const Frame &frame) const {
  alignas(64) float distances[4 * kTilePixels], turn[2 * kTilePixels];
  const Source &from = sources_[size_t(step.source)];
  const ByteFunction distance = step.distances.list()[0];
  each_line(from, frame.sources[size_t(step.source)], 0, 4 * step.bins, first, count, [&](const Line &line, int64_t p) {
    if (step.bins == 1)
      loops_.map(line, &distance, 1, {nullptr, nullptr}, {distances + (p - first), 1, kTilePixels});
    else
      loops_.bins(line, step.bins, step.shifted, distance, distances + (p - first), kTilePixels);
  });
  if (step.angle >= 0) {
    const std::vector<ByteFunction> of_angle = step.turn.list();
    for (int64_t i = 0; i < 2; ++i)
      each_line(sources_[size_t(step.angle)], frame.sources[size_t(step.angle)], 0, 1, first, count,
                [&](const Line &line, int64_t p) {
                  loops_.map(line, &of_angle[size_t(i)], 1, {nullptr, nullptr},
                             {turn + i * kTilePixels + (p - first), 1, 1});
                });
  }
  const bool turned = step.angle >= 0;
  float *out = frame.targets[size_t(step.to.target)] + step.to.offset + first * step.to.pixel;
  loops_.boxes(distances, kTilePixels, points_of(step.grid, first), turned ? turn : nullptr,
               turned ? turn + kTilePixels : nullptr, count, step.stride, {out, step.to.pixel, step.to.channel});
}

void Steps::tile(const Task &task, const Frame &frame) const {
  for (const auto &[is_box, index] : groups_[task.group].steps)
    if (is_box)
      box(boxes_[index], task.first, task.count, frame);
    else
      map(maps_[index], task.first, task.count, frame);
}

void Steps::run(const std::vector<const int8_t *> &sources, const std::vector<float *> &targets) const {
  const Frame frame = {sources, targets};
  std::atomic<size_t> next{0};
  hands_.run([&](int) {
    for (size_t task; (task = next.fetch_add(1)) < tasks_.size();) tile(tasks_[task], frame);
  });
}

}  // namespace axtool::postamble
