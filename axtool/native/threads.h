// A team of threads that live as long as the engine, and the pieces of work that they claim.
#pragma once
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace axtool {

// A number that only goes up, and threads that wait for it to: a short spin first, then sleep.
class Gate {
 public:
  unsigned now() const { return count_.load(); }
  void open();
  void wait_past(unsigned seen);

 private:
  std::atomic<unsigned> count_{0};
  std::atomic<int> sleepers_{0};
  std::mutex mutex_;
  std::condition_variable woken_;
};

// The caller is worker 0. Nobody waits for a worker that the system has not woken yet: the others do its work.
class Team {
 public:
  explicit Team(int size);
  ~Team();
  int size() const { return size_; }

  // body(worker) on the caller's thread and on every other that comes in time; returns when all that came are done.
  // body must not throw.
  void run(const std::function<void(int)> &body);

 private:
  void live(int worker);

  static constexpr int kClosed = 1 << 20;
  const int size_;
  std::atomic<int> inside_{kClosed};  // workers in body, plus kClosed when no more may enter
  std::atomic<bool> ending_{false};
  Gate start_, left_;
  const std::function<void(int)> *body_ = nullptr;
  std::vector<std::thread> threads_;
};

// A team that callers on any threads share: one of them has it at a time. Who comes while it is taken, or where there is
// none, does the work alone; so `body` takes pieces until none is left, and nobody waits for another's.
class Hands {
 public:
  explicit Hands(int threads) : shared_(threads > 1 ? std::make_unique<Shared>(threads) : nullptr) {}
  int size() const { return shared_ ? shared_->team.size() : 1; }
  void run(const std::function<void(int)> &body) const;

 private:
  struct Shared {
    explicit Shared(int threads) : team(threads) {}
    Team team;
    std::mutex taken;
  };
  std::unique_ptr<Shared> shared_;
};

// The pieces of every step of a schedule, each to be claimed once in a run.
class Claims {
 public:
  Claims(std::vector<int> pieces_of_steps, int workers);
  void begin();  // of a run, nobody inside

  // A piece of the step, or -1 when all are claimed. A worker begins at its own share, so that the same rows of every
  // layer come to the same core, and then helps the others.
  int take(size_t step, int worker);
  bool finish(size_t step) { return left_[step].fetch_sub(1) == 1; }  // a piece; true for the last of the step

 private:
  std::vector<int> counts_;
  std::vector<size_t> first_;  // place of a step's first piece in claimed_
  size_t total_ = 0;
  const int workers_;
  std::unique_ptr<std::atomic<bool>[]> claimed_;
  std::unique_ptr<std::atomic<int>[]> left_;
};

}  // namespace axtool
