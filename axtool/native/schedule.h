// Commands -> steps that need one barrier each: loads that may be read at their source are left out, neighbours of a
// layer are joined, and every step is cut into pieces for the threads. Only what is proven by byte ranges is done.
#pragma once
#include <memory>
#include <vector>

#include "check.h"
#include "mac/mac.h"
#include "ops.h"

namespace axtool {

struct Step {
  const Layer *layer;  // null for a copy
  Box tile;
  int64_t part;
  std::vector<View> reads;
  View write;              // exactly the bytes that are written
  int64_t command;         // the first command of the step, for messages
  bool load;               // ext -> ocm
  bool staged;             // its result is written when all of it is known: what it writes, it may still have to read
  std::vector<Box> pieces;  // of the tile
  std::shared_ptr<const MacFrozen> frozen = {};  // see Engine::freeze
  std::shared_ptr<const int8_t> values = {};     // of a table, see mac_list_values
};

// A copy of a view into memory 2 + index after a command; see Engine::run.
struct TapView {
  int64_t after;
  View view;
};

struct Schedule {
  std::vector<Step> steps;
  size_t scratch_bytes = 0;  // for each thread
  size_t staged_bytes = 0;
};

Schedule make_schedule(const std::vector<Layer> &layers, const std::vector<Command> &commands,
                       const std::vector<TapView> &taps, const Sizes &sizes, int threads, Isa isa, bool merge);

// Freezes the weights and the table of every MAC step that reads them from ext where no step writes them. Returns the
// bytes it takes.
int64_t freeze_steps(Schedule &schedule, int8_t *const *bases, Isa isa);  // freeze.cpp

// An element-wise step over its own operand: each byte is read just before it is written, by whoever writes it.
bool in_place(const Step &step, size_t read);

// The parts of make_schedule.
void elide_loads(std::vector<Step> &steps, const Sizes &sizes);      // elide.cpp
void merge_neighbours(std::vector<Step> &steps, const Sizes &sizes);  // merge.cpp
void cut_step(Step &step, int threads, Isa isa);                      // cut.cpp

// The call that makes one piece, over memories that begin at `bases`.
Call call_of(const Step &step, const Box &piece, int8_t *const *bases, Isa isa, void *scratch);

}  // namespace axtool
