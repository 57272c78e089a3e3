// What all drivers of this folder share: the end of a channel block, and scratch memory.
#pragma once
#include "mac_scalar.h"

namespace axtool {
namespace {

// Where and how the sums of one channel block are finished. bias already holds all corrections.
struct BlockOut {
  const int32_t *params;  // [4][16]
  int32_t bias[16];
  int channels;           // 1..16 of them are stored
  int max_f, min_f;
};

// Cuts 64-byte aligned pieces off the scratch memory; with no memory it only counts.
struct Carve {
  char *base;
  size_t used = 0;
  void *take(size_t bytes) {
    void *at = base ? base + used : nullptr;
    used += (bytes + 63) & ~size_t(63);
    return at;
  }
};
}  // namespace
}  // namespace axtool
