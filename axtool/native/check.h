// Is a command one that may run? Nothing in a row is trusted: this is what stands between a hostile file and memory.
#pragma once
#include <vector>

#include "rows.h"

namespace axtool {

struct Sizes {
  int64_t bytes[2];  // of ext and ocm
};

void check_layer(const Layer &layer);                                                        // throws Refusal
void check_view(const View &view, const Sizes &sizes);                                       // throws Refusal
void check_command(const Command &, const std::vector<Layer> &layers, const Sizes &sizes);  // throws Refusal

// Do these views hold what the op needs for the tile? Returns the reason, empty when they do.
std::string lacking(const Layer &layer, const Box &tile, int64_t part, const std::vector<View> &reads);

}  // namespace axtool
