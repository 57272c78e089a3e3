// heads_portable against LOOPS, another build of the same loops: the same bits of every kind of strip, or exit code 1.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>

#include "postamble/heads.h"

using namespace axtool::postamble;

static std::mt19937 dice(1);
static int any(int low, int high) { return low + int(dice() % unsigned(high - low + 1)); }

// Three tables of 8, and the 256 values that byte_functions.py makes of them.
static void exponential(Strip &s, float scale, int zero) {
  for (int i = 0; i < 8; ++i) s.factors.push_back(std::exp(-scale * float(int8_t(uint8_t(i % 4 * 64)) - zero)));
  for (int i = 0; i < 8; ++i) s.factors.push_back(std::exp(-scale * float(8 * i)));
  for (int i = 0; i < 8; ++i) s.factors.push_back(std::exp(-scale * float(i)));
  for (int u = 0; u < 256; ++u) {
    const float coarse = s.factors[u >> 6] * s.factors[8 + (u >> 3 & 7)], e = coarse * s.factors[16 + (u & 7)];
    s.table.push_back(s.kind == Kind::sigmoid ? 1 / (1 + e) : s.kind == Kind::tanh ? (1 - e) / (1 + e) : e);
  }
}

static std::vector<float> random_floats(size_t count) {
  std::vector<float> made;
  for (size_t i = 0; i < count; ++i) made.push_back(float(any(-1000, 1000)) / 256);
  return made;
}

static Strip random_strip(Kind kind, int64_t cols) {
  Strip s{};
  s.kind = kind;
  const bool box = kind == Kind::grid_box || kind == Kind::corner_box;
  s.anchors = any(1, 4);
  s.first = any(0, 2);
  s.count = box ? 4 : kind == Kind::softmax_pair ? 2 : any(1, 70);
  s.group = s.first + s.count + any(0, 2);
  s.anchor_step = s.count + any(0, 3);
  s.pixel_step = s.anchors * s.anchor_step;
  s.columns_first = any(0, 1);
  s.scale = float(any(1, 300)) / 1024;
  s.zero = float(any(-128, 127));
  if (kind == Kind::sigmoid || kind == Kind::tanh || kind == Kind::softmax) {
    exponential(s, s.scale / 2, int(s.zero));
    if (any(0, 3) == 0) s.factors.clear();
  } else if (kind == Kind::affine) {
    for (int u = 0; u < 256; ++u) s.table.push_back((float(int8_t(uint8_t(u))) - s.zero) * s.scale);
  } else {
    s.table = random_floats(kind == Kind::softmax_pair ? 1022 : box ? 512 : 256);
  }
  s.sizes = random_floats(size_t(2 * s.anchors));
  s.rows = random_floats(1);
  s.cols = random_floats(size_t(cols));
  s.steps = random_floats(2);
  return s;
}

int main() {
  static const char *const names[] = {"affine", "sigmoid", "tanh", "softmax", "table", "softmax_pair", "grid_box", "corner_box"};
  for (int kind = 0; kind < 8; ++kind) {
    for (int round = 0; round < 300; ++round) {
      const int64_t cols = any(1, 9);
      const Strip s = random_strip(Kind(kind), cols);
      const int64_t pixel_bytes = s.anchors * s.group + any(0, 5);
      std::vector<int8_t> pixels(size_t(cols * pixel_bytes));
      for (int8_t &q : pixels) q = int8_t(any(-128, 127));
      std::vector<float> wanted(size_t(cols * s.pixel_step), 7), found = wanted;
      heads_portable.row(s, pixels.data(), pixel_bytes, cols, 0, wanted.data());
      LOOPS.row(s, pixels.data(), pixel_bytes, cols, 0, found.data());
      if (std::memcmp(wanted.data(), found.data(), wanted.size() * sizeof(float)) != 0) {
        std::printf("%s: %s has other bits\n", LOOPS.name, names[kind]);
        return 1;
      }
    }
  }
  std::printf("%s: the same bits\n", LOOPS.name);
}
