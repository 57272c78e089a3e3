#include "threads.h"

namespace axtool {

constexpr int kSpins = 4000;  // about 50 microseconds: longer than the uneven end of a step, shorter than a time slice

static inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// A sleeper is counted before it looks at the number for the last time, and the number goes up before the sleepers are
// counted: one of the two sees the other.
void Gate::open() {
  count_.fetch_add(1);
  if (!sleepers_.load()) return;
  std::lock_guard<std::mutex> lock(mutex_);
  woken_.notify_all();
}

void Gate::wait_past(unsigned seen) {
  for (int i = 0; i < kSpins; ++i) {
    if (count_.load(std::memory_order_acquire) != seen) return;
    pause();
  }
  std::unique_lock<std::mutex> lock(mutex_);
  sleepers_.fetch_add(1);
  woken_.wait(lock, [&] { return count_.load() != seen; });
  sleepers_.fetch_sub(1);
}

Team::Team(int size) : size_(size) {
  for (int worker = 1; worker < size; ++worker) threads_.emplace_back([this, worker] { live(worker); });
}

Team::~Team() {
  ending_.store(true);
  start_.open();
  for (std::thread &t : threads_) t.join();
}

void Team::live(int worker) {
  unsigned seen = 0;
  for (;; ++seen) {
    start_.wait_past(seen);
    if (ending_.load()) return;
    (*body_)(worker);
    barrier([] {});
  }
}

void Team::run(const std::function<void(int)> &body) {
  body_ = &body;
  start_.open();
  body(0);
  barrier([] {});
}

void Shares::reset(int count) {
  for (int w = 0; w < workers_; ++w) {
    next_[size_t(w)].end = int(int64_t(count) * (w + 1) / workers_);
    next_[size_t(w)].at.store(int(int64_t(count) * w / workers_), std::memory_order_relaxed);
  }
}

int Shares::take(int worker) {
  for (int i = 0; i < workers_; ++i) {
    Next &share = next_[size_t((worker + i) % workers_)];
    if (share.at.load(std::memory_order_relaxed) >= share.end) continue;
    const int piece = share.at.fetch_add(1, std::memory_order_relaxed);
    if (piece < share.end) return piece;
  }
  return -1;
}

}  // namespace axtool
