// A team of threads that live as long as the engine, and the barrier between two steps of its work.
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

class Team {
 public:
  explicit Team(int size);
  ~Team();
  int size() const { return size_; }

  // body(worker) on every thread, the caller's as worker 0; returns when all are done. body must not throw.
  void run(const std::function<void(int)> &body);

  // Wait inside `run` until every worker is here; the last one to arrive does `between` before the others go on.
  template <class Between>
  void barrier(const Between &between) {
    if (size_ == 1) return between();
    const unsigned seen = step_.now();
    if (arrived_.fetch_add(1) + 1 < size_) return step_.wait_past(seen);
    arrived_.store(0);
    between();
    step_.open();
  }

 private:
  void live(int worker);

  const int size_;
  std::atomic<int> arrived_{0};
  std::atomic<bool> ending_{false};
  Gate start_, step_;
  const std::function<void(int)> *body_ = nullptr;
  std::vector<std::thread> threads_;
};

// Pieces 0..count-1 shared out: a worker takes its own share in order, so that the same rows of every layer come to the
// same core, then helps the others.
class Shares {
 public:
  explicit Shares(int workers) : workers_(workers), next_(new Next[size_t(workers)]) {}
  void reset(int count);
  int take(int worker);  // -1 when nothing is left

 private:
  struct alignas(64) Next {
    std::atomic<int> at{0};
    int end = 0;
  };
  const int workers_;
  std::unique_ptr<Next[]> next_;
};

}  // namespace axtool
