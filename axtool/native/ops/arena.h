// Scratch memory of a call as arrays that follow each other: counted first, handed out then.
#pragma once
#include <cstddef>
#include <cstdint>

namespace axtool {

class Arena {
 public:
  explicit Arena(void *memory = nullptr) : memory_(static_cast<char *>(memory)) {}

  template <class T>
  T *take(int64_t count) {
    char *const at = memory_ ? memory_ + used_ : nullptr;
    used_ += (size_t(count) * sizeof(T) + 63) / 64 * 64;
    return reinterpret_cast<T *>(at);
  }
  size_t used() const { return used_; }

 private:
  char *memory_;
  size_t used_ = 0;
};

}  // namespace axtool
