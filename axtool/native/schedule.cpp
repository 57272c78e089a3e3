#include "schedule.h"

#include <algorithm>

namespace axtool {

bool in_place(const Step &step, size_t read) {
  if (!step.layer || !op_info(step.layer->op).elementwise || !same_origin(step.write, step.reads[read])) return false;
  Box needs[kMaxReads];
  op_info(step.layer->op).needs(*step.layer, step.tile, step.part, needs);
  return contains(needs[read], step.tile) && contains(step.tile, needs[read]);  // no operand that is repeated
}

// A result may not be written piece by piece while other pieces still read what it overwrites, unless it is in place.
static bool must_stage(const Step &s) {
  for (size_t i = 0; i < s.reads.size(); ++i)
    if (overlaps(s.write, s.reads[i]) && !in_place(s, i)) return true;
  return false;
}

static Step tap_step(const TapView &tap, int memory, int64_t command) {
  const Box &b = tap.view.box;
  return {nullptr, b, 0, {tap.view}, {memory, 0, b, b.w * b.n, b.n}, command, false, false, {}};
}

static std::vector<Step> steps_of(const std::vector<Layer> &layers, const std::vector<Command> &commands,
                                  const std::vector<TapView> &taps) {
  std::vector<size_t> order(taps.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return taps[a].after < taps[b].after; });
  std::vector<Step> steps;
  auto tap = order.begin();
  for (int64_t i = 0; i < int64_t(commands.size()); ++i) {
    const Command &c = commands[size_t(i)];
    const bool compute = c.kind == Kind::compute;
    const bool load = c.kind == Kind::load && c.reads[0].memory == 0 && c.writes[0].memory == 1;
    const Layer *layer = compute ? &layers[size_t(c.layer)] : nullptr;
    const Box box = compute ? written(*layer, c.tile, c.part) : c.writes[0].box;
    if (!empty(box))  // a part of a concat may miss the tile
      steps.push_back({layer, compute ? c.tile : box, c.part, c.reads, part_of(c.writes[0], box), i, load, false, {}});
    for (; tap != order.end() && taps[*tap].after == i; ++tap) steps.push_back(tap_step(taps[*tap], int(2 + *tap), i));
  }
  return steps;
}

Schedule make_schedule(const std::vector<Layer> &layers, const std::vector<Command> &commands,
                       const std::vector<TapView> &taps, const Sizes &sizes, int threads, Isa isa, bool merge) {
  Schedule schedule;
  schedule.steps = steps_of(layers, commands, taps);
  if (merge) {
    merge_neighbours(schedule.steps, sizes);  // before: fewer steps to reason about; after: loads parted some
    elide_loads(schedule.steps, sizes);
    merge_neighbours(schedule.steps, sizes);
  }
  int8_t *const nowhere[2] = {};
  for (Step &step : schedule.steps) {
    step.staged = must_stage(step);
    cut_step(step, threads, isa);
    if (step.staged)
      schedule.staged_bytes = std::max(schedule.staged_bytes, size_t(step.tile.h * step.tile.w * step.tile.n));
    if (!step.layer) continue;
    for (const Box &piece : step.pieces) {
      const Call call = call_of(step, piece, nowhere, isa, nullptr);
      schedule.scratch_bytes = std::max(schedule.scratch_bytes, op_info(step.layer->op).scratch(call));
    }
  }
  return schedule;
}

Call call_of(const Step &step, const Box &piece, int8_t *const *bases, Isa isa, void *scratch) {
  Call call{*step.layer, piece, step.part, {}, {}, isa, loops_for(isa), scratch, step.frozen.get(), step.values.get()};
  for (size_t i = 0; i < step.reads.size(); ++i) {
    const View &v = step.reads[i];
    call.reads[i] = {bases[v.memory] + v.offset, v.box, v.row, v.pixel};
  }
  const View &w = step.write;
  call.write = {bases[w.memory] + w.offset, w.box, w.row, w.pixel};
  return call;
}

}  // namespace axtool
