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
  for (unsigned seen = 0;;) {
    start_.wait_past(seen);
    seen = start_.now();
    if (ending_.load()) return;
    int others = inside_.load();
    while (!(others & kClosed) && !inside_.compare_exchange_weak(others, others + 1)) continue;
    if (others & kClosed) continue;  // too late: the work is done
    (*body_)(worker);
    if (inside_.fetch_sub(1) == kClosed + 1) left_.open();
  }
}

void Team::run(const std::function<void(int)> &body) {
  if (size_ == 1) return body(0);
  body_ = &body;
  inside_.store(0);
  start_.open();
  body(0);
  unsigned seen = left_.now();
  for (inside_.fetch_or(kClosed); inside_.load() != kClosed; seen = left_.now()) left_.wait_past(seen);
}

void Hands::run(const std::function<void(int)> &body) const {
  if (!shared_) return body(0);
  const std::unique_lock<std::mutex> mine(shared_->taken, std::try_to_lock);
  if (mine.owns_lock())
    shared_->team.run(body);
  else
    body(0);
}

Claims::Claims(std::vector<int> pieces_of_steps, int workers) : counts_(std::move(pieces_of_steps)), workers_(workers) {
  for (int count : counts_) first_.push_back(total_), total_ += size_t(count);
  claimed_.reset(new std::atomic<bool>[total_]);
  left_.reset(new std::atomic<int>[counts_.size()]);
}

void Claims::begin() {
  for (size_t i = 0; i < total_; ++i) claimed_[i].store(false, std::memory_order_relaxed);
  for (size_t i = 0; i < counts_.size(); ++i) left_[i].store(counts_[i], std::memory_order_relaxed);
}

int Claims::take(size_t step, int worker) {
  const int count = counts_[step], own = int(int64_t(count) * worker / workers_);
  for (int i = 0; i < count; ++i) {
    const int piece = (own + i) % count;
    std::atomic<bool> &claimed = claimed_[first_[step] + size_t(piece)];
    if (!claimed.load(std::memory_order_relaxed) && !claimed.exchange(true)) return piece;
  }
  return -1;
}

}  // namespace axtool
