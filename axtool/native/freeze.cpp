// Constants that every run would arrange anew -> arranged once. Which bytes are constant is proven as for loads that are
// left out: they are read from ext, and no step of the schedule writes them. The host promises not to (Engine::freeze).
#include <algorithm>
#include <cstdlib>
#include <map>
#include <new>
#include <tuple>
#include <vector>

#include "mac_task.h"
#include "schedule.h"

namespace axtool {

static bool constant(const View &view, const std::vector<Step> &steps) {
  return view.memory == 0 && std::none_of(steps.begin(), steps.end(), [&](const Step &s) {
           return s.write.memory == 0 && overlaps(s.write, view);
         });
}

namespace {

struct Freezer {
  const std::vector<Step> &steps;
  int8_t *const *bases;
  const Isa isa;
  int64_t bytes = 0;
  // tiles of the same channels of a layer share what is made of their weights
  std::map<std::tuple<const Layer *, int64_t, int64_t, int64_t>, std::shared_ptr<const MacFrozen>> weights = {};
  // and all layers with the same table and limits its values
  std::map<std::tuple<std::vector<int16_t>, int, int>, std::shared_ptr<const int8_t>> tables = {};

  MacTask task_of(const Step &step) const { return mac_task(call_of(step, step.tile, bases, isa, nullptr)); }

  std::shared_ptr<const MacFrozen> weights_of(const Step &step) {
    if (!constant(step.reads[1], steps)) return nullptr;
    auto [place, fresh] = weights.try_emplace({step.layer, step.reads[1].offset, step.tile.c, step.tile.n});
    if (fresh) {
      place->second = mac_freeze(task_of(step), isa);
      bytes += place->second ? int64_t(mac_frozen_bytes(*place->second)) : 0;
    }
    return place->second;
  }

  std::shared_ptr<const int8_t> values_of(const Step &step) {
    const MacTask task = task_of(step);
    if (!mac_gains_by_values(task, isa) || !constant(step.reads[3], steps)) return nullptr;
    auto &values = tables[{std::vector<int16_t>(task.table, task.table + 1025), task.lo, task.hi}];
    if (!values) {
      int8_t *listed = static_cast<int8_t *>(std::aligned_alloc(64, kMacValues));
      if (!listed) throw std::bad_alloc();
      values.reset(listed, [](const int8_t *p) { std::free(const_cast<int8_t *>(p)); });
      mac_list_values(task, listed);
      bytes += int64_t(kMacValues);
    }
    return values;
  }
};

}  // namespace

int64_t freeze_steps(Schedule &schedule, int8_t *const *bases, Isa isa) {
  Freezer freezer{schedule.steps, bases, isa};
  for (Step &step : schedule.steps) {
    if (!step.layer || int(step.layer->op) > int(Op::conv_transpose)) continue;
    step.frozen = nullptr, step.values = nullptr;
    step.frozen = freezer.weights_of(step), step.values = freezer.values_of(step);
    if (!step.frozen && !step.values) continue;
    for (const Box &piece : step.pieces) {
      const Call call = call_of(step, piece, bases, isa, nullptr);
      schedule.scratch_bytes = std::max(schedule.scratch_bytes, op_info(step.layer->op).scratch(call));
    }
  }
  return freezer.bytes;
}

}  // namespace axtool
