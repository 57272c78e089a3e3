#include "engine.h"

#include <cstring>

namespace axtool {

template <class Decoded, class Decode>
static std::vector<Decoded> decode_rows(const Rows &rows, const char *what, const Decode &decode) {
  const int64_t *at = rows.offsets;
  bool ok = rows.count >= 1 && at[0] == 0 && at[rows.count - 1] == rows.length;
  for (int64_t i = 1; ok && i < rows.count; ++i) ok = at[i - 1] <= at[i];
  if (!ok) throw Refusal(std::string(what) + ": offsets do not cut " + std::to_string(rows.length) + " values into rows");
  std::vector<Decoded> decoded;
  for (int64_t i = 0; i + 1 < rows.count; ++i) {
    try {
      decoded.push_back(decode(rows.values + at[i], at[i + 1] - at[i]));
    } catch (const Refusal &why) {
      throw Refusal(std::string(what) + " " + std::to_string(i) + ": " + why.what());
    }
  }
  return decoded;
}

Engine::Aligned::Aligned(size_t size) : bytes(size + 64) {
  p = bytes.data() + (64 - reinterpret_cast<uintptr_t>(bytes.data()) % 64);
}

static int checked_threads(int threads) {
  if (threads < 1 || threads > 256) throw Refusal("threads is " + std::to_string(threads) + ": want 1..256");
  return threads;
}

Engine::Engine(const Rows &layers, const Rows &commands, const Sizes &sizes, int threads, Isa isa, bool merge,
               const std::map<int64_t, Function> &functions)
    : sizes_(sizes), isa_(isa), merge_(merge), team_(checked_threads(threads)) {
  for (int64_t size : sizes.bytes)
    if (size < 0 || size > kMaxBytes) throw Refusal("a memory of " + std::to_string(size) + " bytes");
  layers_ = decode_rows<Layer>(layers, "layer", [&functions](const int64_t *row, int64_t length) {
    Layer layer = decode_layer(row, length);
    check_layer(layer);
    if (layer.op == Op::custom) {
      const auto found = functions.find(layer.get("id"));
      want(found != functions.end() && found->second, "custom: there is no function for the id ", layer.get("id"));
      layer.function = found->second;
    }
    return layer;
  });
  commands_ = decode_rows<Command>(commands, "command", [this](const int64_t *row, int64_t length) {
    Command command = decode_command(row, length);
    check_command(command, layers_, sizes_);
    return command;
  });
  plain_ = prepare({});
}

Engine::Work Engine::prepare(const std::vector<TapView> &taps) {
  Work work{make_schedule(layers_, commands_, taps, sizes_, team_.size(), isa_, merge_), nullptr};
  std::vector<int> pieces;
  for (const Step &step : work.schedule.steps) pieces.push_back(int(step.pieces.size()));
  work.claims = std::make_unique<Claims>(std::move(pieces), team_.size());
  reserve(work.schedule);
  return work;
}

void Engine::reserve(const Schedule &schedule) {
  if (scratch_.empty() || schedule.scratch_bytes > scratch_bytes_) {
    scratch_bytes_ = schedule.scratch_bytes;
    scratch_.clear();
    for (int i = 0; i < team_.size(); ++i) scratch_.push_back(std::make_unique<Aligned>(scratch_bytes_));
  }
  if (schedule.staged_bytes > staged_.size()) staged_.resize(schedule.staged_bytes);
}

static bool same_taps(const std::vector<TapView> &a, const std::vector<TapView> &b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    const View &x = a[i].view, &y = b[i].view;
    const bool box = x.box.y == y.box.y && x.box.x == y.box.x && x.box.c == y.box.c && same_extent(x.box, y.box);
    if (a[i].after != b[i].after || x.memory != y.memory || x.offset != y.offset || !box || x.row != y.row ||
        x.pixel != y.pixel)
      return false;
  }
  return true;
}

// Taps take part in the proofs as copies would, so what they see is what it would be without merging.
Engine::Work &Engine::work_for(const std::vector<TapView> &taps) {
  if (taps.empty()) return plain_;
  if (same_taps(taps, tapped_for_)) return tapped_;
  for (size_t i = 0; i < taps.size(); ++i) {
    const std::string which = "tap " + std::to_string(i) + ": ";
    if (taps[i].after < 0 || taps[i].after >= int64_t(commands_.size()))
      throw Refusal(which + "there is no command " + std::to_string(taps[i].after));
    try {
      check_view(taps[i].view, sizes_);
    } catch (const Refusal &why) {
      throw Refusal(which + why.what());
    }
  }
  tapped_ = prepare(taps);
  tapped_for_ = taps;
  return tapped_;
}

void Engine::check_memories(const Memory *memories) const {
  const char *const names[] = {"ext", "ocm"};
  for (int i = 0; i < 2; ++i) {
    if (memories[i].size < sizes_.bytes[i])
      throw Refusal(std::string(names[i]) + " has " + std::to_string(memories[i].size) + " bytes, the commands need " +
                    std::to_string(sizes_.bytes[i]));
    if (reinterpret_cast<uintptr_t>(memories[i].bytes) % 4)
      throw Refusal(std::string(names[i]) + " must begin at a multiple of 4 bytes");
  }
}

int64_t Engine::freeze(Memory ext, Memory ocm) {
  std::lock_guard<std::mutex> one_at_a_time(running_);
  const Memory memories[] = {ext, ocm};
  check_memories(memories);
  int8_t *const bases[] = {ext.bytes, ocm.bytes};
  const int64_t bytes = freeze_steps(plain_.schedule, bases, isa_);
  reserve(plain_.schedule);
  return bytes;
}

void Engine::run(Memory ext, Memory ocm, const std::vector<TapView> &taps, const std::vector<int8_t *> &outs) {
  std::lock_guard<std::mutex> one_at_a_time(running_);
  const Memory memories[] = {ext, ocm};
  check_memories(memories);
  std::vector<int8_t *> bases = {ext.bytes, ocm.bytes};
  bases.insert(bases.end(), outs.begin(), outs.end());
  execute(work_for(taps), bases.data());
}

// A step begins when every piece of the one before is done, whoever did it.
void Engine::execute(Work &work, int8_t *const *bases) {
  const std::vector<Step> &steps = work.schedule.steps;
  std::mutex failing;
  std::string failure;
  std::atomic<bool> failed{false};
  const unsigned first = step_.now();
  work.claims->begin();
  team_.run([&](int worker) {
    void *scratch = scratch_[size_t(worker)]->p;
    for (size_t i = 0; i < steps.size(); i = step_.now() - first) {
      for (int piece; (piece = work.claims->take(i, worker)) >= 0;) {
        try {
          if (!failed && steps[i].staged) run_staged(steps[i], bases, scratch);
          else if (!failed) run_piece(steps[i], steps[i].pieces[size_t(piece)], bases, scratch);
        } catch (const std::exception &why) {
          std::lock_guard<std::mutex> lock(failing);
          failed = true;
          failure = "command " + std::to_string(steps[i].command) + ": " + why.what();
        }
        if (work.claims->finish(i)) step_.open();
      }
      step_.wait_past(first + unsigned(i));
    }
  });
  if (failed) throw Refusal(failure);
}

void Engine::run_piece(const Step &step, const Box &piece, int8_t *const *bases, void *scratch) {
  if (step.layer) return op_info(step.layer->op).run(call_of(step, piece, bases, isa_, scratch));
  // Both views of a copy have the same extent; `piece` is in the coordinates of what is written.
  const View &from = step.reads[0], &to = step.write;
  const int8_t *x = bases[from.memory] + from.at(piece.y - to.box.y + from.box.y, piece.x - to.box.x + from.box.x,
                                                  piece.c - to.box.c + from.box.c);
  int8_t *y = bases[to.memory] + to.at(piece.y, piece.x, piece.c);
  copy_box(x, from.row, from.pixel, y, to.row, to.pixel, piece.h, piece.w, piece.n);
}

// Into a buffer first: the step overwrites what it reads.
void Engine::run_staged(const Step &step, int8_t *const *bases, void *scratch) {
  const View &to = step.write;
  const Box box = step.layer ? written(*step.layer, step.tile, step.part) : step.tile;
  Step aside = step;
  int8_t *const memories[] = {bases[0], bases[1], staged_.data()};
  aside.write = {2, 0, box, box.w * box.n, box.n};
  run_piece(aside, step.tile, memories, scratch);
  copy_box(staged_.data(), box.w * box.n, box.n, bases[to.memory] + to.at(box.y, box.x, box.c), to.row, to.pixel, box.h,
           box.w, box.n);
}

}  // namespace axtool
