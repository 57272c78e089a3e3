// loops_portable against LOOPS, another build of the same loops: the same bits of every function, or exit code 1.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include "postamble/bytes.h"

using namespace axtool::postamble;

static std::mt19937 dice(1);
static int any(int low, int high) { return low + int(dice() % unsigned(high - low + 1)); }

static std::vector<float> random_floats(int64_t count) {
  std::vector<float> made;
  for (int64_t i = 0; i < count; ++i) made.push_back(float(any(-1000, 1000)) / 256);
  return made;
}

// A function with the 256 values and the three tables of 8 that byte_functions.py makes of it.
struct Made {
  std::vector<float> table, factors;
  ByteFunction of;
};

static void make(Made &made, ByteKind kind) {
  const float scale = float(any(1, 300)) / 1024, zero = float(any(-128, 127));
  for (int i = 0; i < 8; ++i) made.factors.push_back(std::exp(-scale * float(int8_t(uint8_t(i % 4 * 64))) / 2));
  for (int i = 0; i < 8; ++i) made.factors.push_back(std::exp(-scale * float(4 * i)));
  for (int i = 0; i < 8; ++i) made.factors.push_back(std::exp(-scale * float(i) / 2));
  for (int u = 0; u < 256; ++u) {
    const float e = made.factors[u >> 6] * made.factors[8 + (u >> 3 & 7)] * made.factors[16 + (u & 7)];
    const float value = (float(int8_t(uint8_t(u))) - zero) * scale;
    made.table.push_back(kind == ByteKind::logistic ? 1 / (1 + e) : kind == ByteKind::exponential ? e : value);
  }
  made.of = {kind, scale, zero, 8, made.table.data(), made.factors.data()};
}

// A line at the end of a buffer: what reads behind it is seen by a sanitizer.
static Line random_line(std::vector<int8_t> &bytes, int64_t w, int64_t c) {
  const int64_t pixel = any(0, 2) ? c + any(0, 3) : (c + 3) / 4 * 4;
  bytes.resize(size_t((w - 1) * pixel + c));
  for (int8_t &q : bytes) q = int8_t(any(-128, 127));
  return {bytes.data(), w, c, pixel, bytes.data() + bytes.size()};
}

static void must(bool same, const char *what) {
  if (same) return;
  std::printf("%s: %s has other bits\n", LOOPS.name, what);
  std::exit(1);
}

static bool equal(const std::vector<float> &a, const std::vector<float> &b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

static void maps() {
  static const ByteKind kinds[] = {ByteKind::table, ByteKind::linear, ByteKind::logistic, ByteKind::grid_x, ByteKind::grid_y};
  std::vector<int8_t> bytes;
  const Line x = random_line(bytes, any(0, 9) ? any(1, 70) : any(500, 512), any(0, 3) ? any(1, 70) : any(1, 4));
  const int64_t period = std::min(any(0, 1) ? 1 : any(1, 4), int(x.c));
  std::vector<Made> made(size_t(period), Made{});
  std::vector<ByteFunction> functions;
  for (Made &one : made) {
    make(one, kinds[any(0, 4)]);
    functions.push_back(one.of);
  }
  const std::vector<float> grid = random_floats(2 * x.w);
  const Points points = {grid.data(), grid.data() + x.w};
  std::vector<float> wanted(size_t(x.w * x.c), 7), found = wanted;
  const bool turned = any(0, 2) > 0;
  const int64_t pixel = turned ? 1 : x.c, channel = turned ? x.w : 1;
  loops_portable.map(x, functions.data(), period, points, {wanted.data(), pixel, channel});
  LOOPS.map(x, functions.data(), period, points, {found.data(), pixel, channel});
  must(equal(wanted, found), "map");
}

static void distributions() {
  std::vector<int8_t> bytes;
  const int64_t bins = any(0, 1) ? 16 : any(1, 64);
  const Line x = random_line(bytes, any(1, 60), 4 * bins);
  const bool shifted = any(0, 3) == 0;
  Made exp;
  make(exp, ByteKind::exponential);
  if (shifted) exp.of.kind = ByteKind::table;
  std::vector<float> wanted(size_t(4 * x.w), 7), found = wanted;
  loops_portable.bins(x, bins, shifted, exp.of, wanted.data(), x.w);
  LOOPS.bins(x, bins, shifted, exp.of, found.data(), x.w);
  must(equal(wanted, found), "bins");
}

static void corners() {
  const int64_t n = any(1, 90);
  const bool angles = any(0, 1), turned = any(0, 1);
  const std::vector<float> d = random_floats(4 * n), grid = random_floats(2 * n), a = random_floats(n), b = random_floats(n);
  std::vector<float> wanted(size_t(4 * n), 7), found = wanted;
  const int64_t pixel = turned ? 1 : 4, channel = turned ? n : 1;
  const Points points = {grid.data(), grid.data() + n};
  const float *cos = angles ? a.data() : nullptr, *sin = angles ? b.data() : nullptr;
  loops_portable.boxes(d.data(), n, points, cos, sin, n, 16, {wanted.data(), pixel, channel});
  LOOPS.boxes(d.data(), n, points, cos, sin, n, 16, {found.data(), pixel, channel});
  must(equal(wanted, found), "boxes");
}

int main() {
  for (int round = 0; round < 200; ++round) {
    maps();
    distributions();
    corners();
  }
  std::printf("%s: the same bits\n", LOOPS.name);
}
