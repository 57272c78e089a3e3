// Windows of pools, the cells in them and the constants by their count: what avg_pool shares with its wide form.
#pragma once
#include "../ops.h"

namespace axtool {

struct Scale {
  int32_t m, f;
};

void check_pool_window(const Layer &layer);
void check_counted_window(const Layer &layer);
Box pool_box(const Layer &layer, const Box &tile);                       // pixels of the windows; channels as in the tile
int64_t counted_cells(const Layer &layer, int axis, int64_t at);         // of the window at `at`, along an axis
Scale scale_for(const Call &call, int64_t count);                        // throws std::invalid_argument

}  // namespace axtool
