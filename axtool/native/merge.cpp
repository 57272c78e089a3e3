// Tiles of one layer that follow each other -> one step, where they could have run in any order.
#include "schedule.h"

namespace axtool {

// One view of everything that either sees. False where that is not the same layout or leaves the memory.
static bool join_views(const View &a, const View &b, const Sizes &sizes, View *both) {
  if (!same_origin(a, b)) return false;
  *both = part_of(a, hull(a.box, b.box));
  return both->offset >= 0 && elements_disjoint(*both) && both->end() <= sizes.bytes[both->memory];
}

static bool join(const Step &a, const Step &b, const Sizes &sizes, Step *both) {
  if (!a.layer || a.layer != b.layer || a.part != b.part || !unites_to_box(a.tile, b.tile)) return false;
  *both = a;
  both->tile = hull(a.tile, b.tile);
  if (!join_views(a.write, b.write, sizes, &both->write)) return false;
  for (size_t i = 0; i < a.reads.size(); ++i) {
    if (!join_views(a.reads[i], b.reads[i], sizes, &both->reads[i])) return false;
    if (overlaps(both->write, both->reads[i]) && !in_place(*both, i)) return false;  // b may read what a wrote
  }
  return lacking(*a.layer, both->tile, both->part, both->reads).empty();
}

// Rows of tiles first, then the rows: the last two are joined for as long as they can be.
void merge_neighbours(std::vector<Step> &steps, const Sizes &sizes) {
  std::vector<Step> joined;
  for (Step &step : steps) {
    joined.push_back(std::move(step));
    Step both;
    while (joined.size() > 1 && join(joined[joined.size() - 2], joined.back(), sizes, &both)) {
      joined.pop_back();
      joined.back() = both;
    }
  }
  steps = std::move(joined);
}

}  // namespace axtool
