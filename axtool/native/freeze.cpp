// Constants that every run would arrange anew -> arranged once. Which bytes are constant is proven as for loads that are
// left out: they are read from ext, and no step of the schedule writes them. The host promises not to (Engine::freeze).
#include <algorithm>
#include <map>
#include <tuple>

#include "mac_task.h"
#include "schedule.h"

namespace axtool {

static bool constant(const View &view, const std::vector<Step> &steps) {
  return view.memory == 0 && std::none_of(steps.begin(), steps.end(), [&](const Step &s) {
           return s.write.memory == 0 && overlaps(s.write, view);
         });
}

int64_t freeze_steps(Schedule &schedule, int8_t *const *bases, Isa isa) {
  // tiles of the same channels of a layer share what is made of their weights
  std::map<std::tuple<const Layer *, int64_t, int64_t, int64_t>, std::shared_ptr<const MacFrozen>> made;
  int64_t bytes = 0;
  for (Step &step : schedule.steps) {
    const bool mac = step.layer && int(step.layer->op) <= int(Op::conv_transpose);
    if (!mac || !constant(step.reads[1], schedule.steps)) continue;
    step.frozen = nullptr;
    auto &frozen = made[{step.layer, step.reads[1].offset, step.tile.c, step.tile.n}];
    if (!frozen) {
      frozen = mac_freeze(mac_task(call_of(step, step.tile, bases, isa, nullptr)), isa);
      bytes += frozen ? int64_t(mac_frozen_bytes(*frozen)) : 0;
    }
    step.frozen = frozen;
    if (!frozen) continue;
    for (const Box &piece : step.pieces) {
      const Call call = call_of(step, piece, bases, isa, nullptr);
      schedule.scratch_bytes = std::max(schedule.scratch_bytes, op_info(step.layer->op).scratch(call));
    }
  }
  return bytes;
}

}  // namespace axtool
