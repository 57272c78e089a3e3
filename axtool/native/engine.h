// Rows in, checked once; then runs over two memories, in order, on a team of threads. Free of Python.
#pragma once
#include <map>
#include <memory>
#include <mutex>

#include "schedule.h"
#include "threads.h"

namespace axtool {

// Rows of different lengths in one array: row i is values[offsets[i]] .. values[offsets[i + 1]].
struct Rows {
  const int64_t *values;
  int64_t length;
  const int64_t *offsets;
  int64_t count;  // of offsets, one more than rows
};

struct Memory {
  int8_t *bytes;
  int64_t size;
};

class Engine {
 public:
  // Throws std::invalid_argument with the number of the row and the reason. `functions` are those of custom ops, by id.
  Engine(const Rows &layers, const Rows &commands, const Sizes &sizes, int threads, Isa isa, bool merge,
         const std::map<int64_t, Function> &functions);

  // Run every command. taps[i] is copied, as rows of (w, n) bytes without gaps, to outs[i]. What is in `ocm` afterwards
  // is unspecified unless the engine was made with merge = false. One run at a time; others wait.
  void run(Memory ext, Memory ocm, const std::vector<TapView> &taps, const std::vector<int8_t *> &outs);

  // Arrange, for later runs without taps, the constants that such runs read straight from `ext` and no command writes;
  // returns the bytes that this takes. From then on those runs do not look at the constants in ext any more.
  int64_t freeze(Memory ext, Memory ocm);

  int64_t step_count() const { return int64_t(plain_.schedule.steps.size()); }
  int threads() const { return team_.size(); }
  Isa isa() const { return isa_; }

 private:
  struct Work {
    Schedule schedule;
    std::unique_ptr<Claims> claims;
  };
  Work prepare(const std::vector<TapView> &taps);
  Work &work_for(const std::vector<TapView> &taps);
  void execute(Work &work, int8_t *const *bases);
  void run_piece(const Step &step, const Box &piece, int8_t *const *bases, void *scratch);
  void run_staged(const Step &step, int8_t *const *bases, void *scratch);
  void reserve(const Schedule &schedule);
  void check_memories(const Memory *memories) const;

  std::vector<Layer> layers_;
  std::vector<Command> commands_;
  Sizes sizes_;
  Isa isa_;
  bool merge_;
  Work plain_, tapped_;
  std::vector<TapView> tapped_for_;
  std::mutex running_;
  Team team_;
  Gate step_;  // one more for each step that is done
  struct Aligned {
    explicit Aligned(size_t bytes);
    std::vector<uint8_t> bytes;
    void *p;
  };
  std::vector<std::unique_ptr<Aligned>> scratch_;  // one a thread
  std::vector<int8_t> staged_;
  size_t scratch_bytes_ = 0;
};

}  // namespace axtool
