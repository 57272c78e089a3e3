// Loads whose bytes are only read, and could have been read where they came from: they are left out and the reads go
// to the source. This saves a copy of all weights in every run.
#include <algorithm>
#include <map>

#include "schedule.h"

namespace axtool {
namespace {

constexpr size_t kMaxParts = 64;  // of a view; beyond, older steps are believed to show through

// Boxes less `hole`: what is above and below it, then left and right of it, then before and behind it in channels.
std::vector<Box> without(const std::vector<Box> &boxes, const Box &hole) {
  std::vector<Box> rest;
  for (Box b : boxes) {
    const Box both = intersection(b, hole);
    if (empty(both)) {
      rest.push_back(b);
      continue;
    }
    const int64_t ends[] = {b.y + b.h, b.x + b.w, b.c + b.n};
    auto keep = [&](const Box &part) {
      if (!empty(part)) rest.push_back(part);
    };
    keep({b.y, b.x, b.c, both.y - b.y, b.w, b.n});
    keep({both.y + both.h, b.x, b.c, ends[0] - both.y - both.h, b.w, b.n});
    keep({both.y, b.x, b.c, both.h, both.x - b.x, b.n});
    keep({both.y, both.x + both.w, b.c, both.h, ends[1] - both.x - both.w, b.n});
    keep({both.y, both.x, b.c, both.h, both.w, both.c - b.c});
    keep({both.y, both.x, both.c + both.n, both.h, both.w, ends[2] - both.c - both.n});
  }
  return rest;
}

// Which steps may have written each byte of the on-chip memory, as the steps are walked in order.
class Writers {
 public:
  explicit Writers(const std::vector<Step> &steps, int64_t size) : steps_(steps) {
    segments_[0] = {{}, true};
    segments_[size] = {};
  }

  void write(int step) {
    const View &view = steps_[size_t(step)].write;
    auto at = split(view.offset), end = split(view.end());
    if (dense(view)) {  // nothing older is left
      segments_.erase(std::next(at), end);
      at->second = {{step}, false};
      return;
    }
    for (; at != end; ++at) {
      Segment &s = at->second;
      auto gone = [&](int d) { return covers(view, steps_[size_t(d)].write); };
      s.steps.erase(std::remove_if(s.steps.begin(), s.steps.end(), gone), s.steps.end());
      s.steps.push_back(step);
    }
  }

  struct Seen {
    std::vector<int> steps;      // newest first
    std::vector<View> unwritten;  // parts whose bytes may be from before the first command
  };

  // Where the bytes of a view may come from.
  Seen read(const View &view) {
    std::vector<int> all;
    bool before = false;
    for (auto at = split(view.offset), end = split(view.end()); at != end; ++at) {
      all.insert(all.end(), at->second.steps.begin(), at->second.steps.end());
      before |= at->second.before;
    }
    std::sort(all.begin(), all.end(), std::greater<int>());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    Seen seen;
    std::vector<Box> left = {view.box};  // not yet explained by a newer step
    for (int d : all) {
      const View &w = steps_[size_t(d)].write;
      auto touches = [&](const Box &box) { return overlaps(w, part_of(view, box)); };
      if (std::none_of(left.begin(), left.end(), touches)) continue;
      seen.steps.push_back(d);
      if (covers(w, view)) left.clear();
      else if (same_origin(w, view) && left.size() < kMaxParts) left = without(left, w.box);
    }
    for (const Box &box : left)
      if (before) seen.unwritten.push_back(part_of(view, box));
    return seen;
  }

 private:
  struct Segment {
    std::vector<int> steps;
    bool before = false;
  };
  using Segments = std::map<int64_t, Segment>;  // first byte -> what holds until the next

  Segments::iterator split(int64_t byte) {
    auto next = segments_.lower_bound(byte);
    if (next != segments_.end() && next->first == byte) return next;
    return segments_.emplace_hint(next, byte, std::prev(next)->second);
  }

  const std::vector<Step> &steps_;
  Segments segments_;
};

// What `view`, all of it loaded by `load`, is at the source. False where the layouts do not allow it.
bool at_source(const Step &load, const View &view, View *source) {
  const View &from = load.reads[0], &to = load.write;
  if (!covers(to, view)) return false;
  const bool same_strides = from.row == to.row && from.pixel == to.pixel;
  if (same_strides || (dense(from) && dense(to))) {
    *source = view;
    source->memory = from.memory, source->offset += from.offset - to.offset;
    return (from.offset - to.offset) % 4 == 0;  // numbers of several bytes stay aligned
  }
  if (!same_origin(to, view) || !contains(to.box, view.box)) return false;
  const int64_t y = view.box.y - to.box.y + from.box.y, x = view.box.x - to.box.x + from.box.x;
  *source = {from.memory, from.at(y, x, view.box.c - to.box.c + from.box.c), view.box, from.row, from.pixel};
  return source->offset % 4 == view.offset % 4;
}

struct Use {
  int step;
  size_t read;
  int load;
  View source;
};

// Every read that may see loaded bytes: a use of one load, or the end of all the loads it touches.
std::vector<Use> find_uses(const std::vector<Step> &steps, int64_t size, std::vector<char> &keep) {
  Writers writers(steps, size);
  std::vector<Use> uses;
  std::vector<View> unwritten;
  for (int i = 0; i < int(steps.size()); ++i) {
    const Step &step = steps[size_t(i)];
    for (size_t r = 0; r < step.reads.size(); ++r) {
      if (step.reads[r].memory != 1) continue;
      const Writers::Seen seen = writers.read(step.reads[r]);
      View source;
      const bool one = seen.steps.size() == 1 && seen.unwritten.empty() && steps[size_t(seen.steps[0])].load;
      if (one && at_source(steps[size_t(seen.steps[0])], step.reads[r], &source)) {
        uses.push_back({i, r, seen.steps[0], source});
        continue;
      }
      for (int d : seen.steps) keep[size_t(d)] = 1;
      unwritten.insert(unwritten.end(), seen.unwritten.begin(), seen.unwritten.end());
    }
    if (step.write.memory == 1) writers.write(i);
  }
  // What is left from an earlier run may be read: the loads that leave bytes there stay.
  for (size_t i = 0; i < steps.size() && !unwritten.empty(); ++i)
    for (const View &view : unwritten) keep[i] |= steps[i].load && overlaps(steps[i].write, view);
  return uses;
}

// A load also stays if its source is written between it and its last use.
void keep_changed_sources(const std::vector<Step> &steps, const std::vector<Use> &uses, std::vector<char> &keep) {
  std::vector<int> last(steps.size(), -1), stores;
  for (const Use &use : uses) last[size_t(use.load)] = std::max(last[size_t(use.load)], use.step);
  for (int i = 0; i < int(steps.size()); ++i)
    if (steps[size_t(i)].write.memory == 0) stores.push_back(i);
  for (int i = 0; i < int(steps.size()); ++i) {
    if (!steps[size_t(i)].load || keep[size_t(i)]) continue;
    for (auto s = std::upper_bound(stores.begin(), stores.end(), i); s != stores.end() && *s < last[size_t(i)]; ++s)
      if (overlaps(steps[size_t(*s)].write, steps[size_t(i)].reads[0])) keep[size_t(i)] = 1;
  }
}

}  // namespace

void elide_loads(std::vector<Step> &steps, const Sizes &sizes) {
  std::vector<char> keep(steps.size());
  const std::vector<Use> uses = find_uses(steps, sizes.bytes[1], keep);
  keep_changed_sources(steps, uses, keep);
  for (const Use &use : uses)
    if (!keep[size_t(use.load)]) steps[size_t(use.step)].reads[use.read] = use.source;
  std::vector<Step> rest;
  for (size_t i = 0; i < steps.size(); ++i)
    if (!steps[i].load || keep[i]) rest.push_back(std::move(steps[i]));
  steps = std::move(rest);
}

}  // namespace axtool
