// What a set of strips checks once, and how its rows are shared among threads.
#include "postamble/heads.h"

#include <algorithm>
#include <atomic>
#include <stdexcept>

namespace axtool::postamble {

static std::vector<const HeadLoops *> available() {
  std::vector<const HeadLoops *> found = {&heads_portable};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) found.push_back(&heads_avx2);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni"))  // what the file is compiled for
    found.push_back(&heads_avx512);
#elif defined(__aarch64__)
  found.push_back(&heads_neon);
#endif
  return found;
}

std::vector<std::string> head_backends() {
  std::vector<std::string> names;
  for (const HeadLoops *loops : available()) names.push_back(loops->name);
  return names;
}

static const HeadLoops *loops_of(const std::string &backend) {
  const std::vector<const HeadLoops *> there = available();
  if (backend == "auto") return there.back();
  for (const HeadLoops *loops : there)
    if (backend == loops->name) return loops;
  std::string names = "auto";
  for (const HeadLoops *loops : there) names += std::string(", ") + loops->name;
  throw std::invalid_argument("backend '" + backend + "' does not exist on this CPU; there are " + names);
}

Heads::Heads(const std::string &backend, int threads) : loops_(loops_of(backend)), hands_(checked_threads(threads)) {}

void Heads::add_source(const Source &s) {
  checked(s);
  for (int64_t y = 0; y < s.rows; ++y) tasks_.push_back({int64_t(sources_.size()), y});
  sources_.push_back(s);
  strips_.emplace_back();
}

void Heads::add_target(int64_t floats) {
  want(floats >= 0, "target: a negative size");
  targets_.push_back(floats);
}

void Heads::add_strip(Strip s) {
  want(s.source >= 0 && s.source < int64_t(sources_.size()), "strip: no such source");
  want(s.target >= 0 && s.target < int64_t(targets_.size()), "strip: no such target");
  const Source &from = sources_[s.source];
  constexpr int64_t most = int64_t(1) << 28;
  for (int64_t n : {s.anchors, s.group, s.first, s.count, s.offset, s.anchor_step, s.pixel_step})
    want(n >= 0 && n <= most, "strip: a number out of range");
  want(s.anchors >= 1 && s.count >= 1, "strip: want an anchor and a channel");
  want((s.anchors - 1) * s.group + s.first + s.count <= from.inside_channels, "strip: channels beyond the source");
  const int64_t pixels = from.rows * from.cols;
  if (pixels > 0)
    want(pixels <= most && s.offset + (pixels - 1) * s.pixel_step + (s.anchors - 1) * s.anchor_step + s.count <=
                               targets_[s.target], "strip: values beyond the target");
  const bool box = s.kind == Kind::grid_box || s.kind == Kind::corner_box, pair = s.kind == Kind::softmax_pair;
  want(s.table.size() == size_t(pair ? 1022 : box ? 512 : 256), "strip: a table of another size");
  want(s.factors.empty() || s.factors.size() == 24, "strip: want 3 tables of 8 factors, or none");
  if (pair) want(s.count == 2, "strip: a softmax of a pair has 2 channels");
  if (box) {
    want(s.count == 4, "strip: a box has 4 channels");
    want(int64_t(s.sizes.size()) == 2 * s.anchors, "strip: want two sizes for each anchor");
    want(int64_t(s.rows.size()) == from.rows && int64_t(s.cols.size()) == from.cols, "strip: want a line for each pixel");
  }
  if (s.kind == Kind::grid_box) want(s.steps.size() == 2, "strip: want the steps of the grid");
  const size_t source = size_t(s.source);
  strips_[source].push_back(std::move(s));
}

void Heads::row(int64_t task, const std::vector<const int8_t *> &sources, const std::vector<float *> &targets) const {
  const auto [source, y] = tasks_[task];
  const Source &from = sources_[source];
  for (const Strip &s : strips_[source])
    loops_->row(s, from.pixels(sources[source], y), from.channels, from.cols, y,
                targets[s.target] + s.offset + y * from.cols * s.pixel_step);
}

void Heads::run(const std::vector<const int8_t *> &sources, const std::vector<float *> &targets) const {
  const int64_t tasks = int64_t(tasks_.size());
  constexpr int64_t rows_at_once = 4;
  std::atomic<int64_t> next{0};
  hands_.run([&](int) {
    for (int64_t from; (from = next.fetch_add(rows_at_once)) < tasks;)
      for (int64_t task = from; task < std::min(from + rows_at_once, tasks); ++task) row(task, sources, targets);
  });
}

}  // namespace axtool::postamble
