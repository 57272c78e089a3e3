// A random MAC task and the memory it lives in, for mac_test.cpp.
//
// Every buffer ends at a page that cannot be touched, so that one byte read or written too far stops the program.
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "../../axtool/native/mac/mac.h"

struct Guarded {
  char *map = nullptr;
  size_t mapped = 0;
  char *data = nullptr;
  explicit Guarded(size_t bytes, size_t align = 1) {
    const size_t page = size_t(sysconf(_SC_PAGESIZE)), padded = (bytes + align - 1) / align * align;
    mapped = (padded + page - 1) / page * page + page;
    map = static_cast<char *>(mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (map == MAP_FAILED || mprotect(map + mapped - page, page, PROT_NONE) != 0) abort();
    data = map + mapped - page - padded;
  }
  ~Guarded() { munmap(map, mapped); }
  Guarded(const Guarded &) = delete;
  Guarded &operator=(const Guarded &) = delete;
};

struct Random {
  std::mt19937 engine;
  int in(int lo, int hi) { return lo + int(engine() % uint32_t(hi - lo + 1)); }
  template <size_t N>
  int of(const int (&values)[N]) { return values[engine() % N]; }
  void fill(void *p, size_t n) {
    for (size_t i = 0; i < n; ++i) static_cast<uint8_t *>(p)[i] = uint8_t(engine() >> 13);
  }
};

struct Case {
  axtool::MacTask t;
  std::vector<int8_t> w;
  std::vector<int32_t> params;
  std::vector<int16_t> table;
  Guarded *x = nullptr;
  size_t y_bytes = 0;
  ~Case() { delete x; }
};

inline int blocks_of(int channels) { return (channels + 15) / 16; }

// Weights in the stored layout, zero where padded, and wsum to match; with `every` all of them are that.
inline void make_weights(Case &c, Random &r, int taps, int cing, int blocks, int coutg, bool depthwise, bool wild_f,
                         int every) {
  const int quads = depthwise ? 1 : (cing + 3) / 4, tap_bytes = depthwise ? 16 : quads * 64;
  c.w.assign(size_t(blocks) * taps * tap_bytes, 0);
  c.params.assign(size_t(blocks) * 64, 0);
  const int per_group = blocks_of(coutg), largest = r.in(0, 1) ? 128 : r.in(1, 64), outliers = r.in(2, 200);
  const bool steep = !wild_f && r.in(0, 2) == 0;  // scales of 1/2 and more, mixed with others
  for (int b = 0; b < blocks; ++b)
    for (int lane = 0; lane < 16; ++lane) {
      int32_t *p = c.params.data() + b * 64 + lane;
      if (b % per_group * 16 + lane >= coutg) continue;
      int sum = 0;
      for (int tap = 0; tap < taps; ++tap)
        for (int i = 0; i < (depthwise ? 1 : cing); ++i) {
          const int v = every ? every : r.in(0, outliers) ? r.in(-largest, largest - 1) : r.in(-128, 127);
          const size_t at = (size_t(b) * taps + tap) * tap_bytes + (depthwise ? lane : i / 4 * 64 + lane * 4 + i % 4);
          c.w[at] = int8_t(v), sum += v;
        }
      p[0] = r.in(0, 9) ? r.in(-20000, 20000) : int32_t(r.engine());
      p[16] = r.in(0, 9) ? r.in(1 << 14, 1 << 24) : int32_t(r.engine() >> 1);
      p[32] = wild_f ? r.in(0, r.in(0, 1) ? 62 : 31) : 31;
      if (wild_f && r.in(0, 1)) p[16] = r.in(0, 3);
      if (steep && r.in(0, 2)) p[16] = r.in(1 << 30, INT32_MAX), p[32] = r.in(r.in(0, 9) ? 24 : 17, 31);
      p[48] = sum;
    }
}

// A table as activations have them: it falls slowly, then rises, and stays where it meets a bound. Now and then it
// rises faster, or falls again.
inline void make_smooth_table(Case &c, Random r) {
  const int turn = r.in(-100, 700), most = r.in(0, 3) ? 64 : 200, lowest = r.in(-17000, 0);
  const int again = r.in(0, 3) ? 2000 : 900;
  int v = r.in(lowest, 16000);
  for (int i = 0; i < 1025; ++i) {
    c.table[i] = int16_t(v);
    v += (i < turn || i > again ? -1 : 1) * r.in(0, most);
    v = v < lowest ? lowest : v > 17000 ? 17000 : v;
  }
}

inline Case *make_case(uint32_t seed) {
  using axtool::MacKind;
  Random r{std::mt19937(seed)};
  Case *c = new Case();
  axtool::MacTask &t = c->t;
  const int channels[] = {1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 24, 31, 32, 33, 48, 65, 96};
  t = {};
  t.kind = MacKind(r.in(0, 2));
  t.kh = r.in(1, 7), t.kw = r.in(0, 2) ? t.kh : r.in(1, 7);
  if (r.in(0, 3) == 0) t.kh = t.kw = 3;
  if (r.in(0, 5) == 0) t.kh = t.kw = 1;
  t.sh = r.in(1, 3), t.sw = r.in(0, 3) ? t.sh : r.in(1, 3);
  t.dh = r.in(0, 2) ? 1 : r.in(1, 3), t.dw = r.in(0, 3) ? t.dh : r.in(1, 3);
  // as many channels as the exact integers of Winograd's forms just hold, or one more
  const bool winograd = r.in(0, 24) == 0;
  int coutg;
  if (winograd) {
    const int many[] = {9, 24, 227, 228, 228};
    t.kind = MacKind::conv, t.kh = t.kw = 3, t.sh = t.sw = t.dh = t.dw = 1;
    t.group = 1, t.in_c = r.of(many), coutg = t.out_c = r.of(channels);
  } else if (t.kind == MacKind::depthwise) {
    const int mult = r.in(0, 3) ? 1 : r.in(1, 4);
    t.in_c = r.of(channels), t.group = t.in_c, t.out_c = t.in_c * mult, coutg = t.out_c;
  } else {
    t.group = r.in(0, 2) ? 1 : r.in(1, 4);
    const int cing = t.group > 1 ? r.in(1, 20) : r.of(channels);
    coutg = t.group > 1 ? r.in(1, 40) : r.of(channels);
    t.in_c = cing * t.group, t.out_c = coutg * t.group;
  }
  // output size first, then an input that reaches it
  t.pt = r.in(0, (t.kh - 1) * t.dh), t.pl = r.in(0, (t.kw - 1) * t.dw);
  t.in_h = r.in(1, 14), t.in_w = r.in(1, 14);
  if (winograd) t.in_h = r.in(8, 20), t.in_w = r.in(8, 20);
  if (!winograd && r.in(0, 60) == 0) {  // now and then large enough for what only pays there
    t.in_h = r.in(20, 40), t.in_w = r.in(20, 40);
    t.kh = t.kw = r.in(1, 3), t.pt = t.pl = r.in(0, t.kh - 1), t.dh = t.dw = 1;
  }
  if (r.in(0, 40) == 0) {  // or deep enough that sums wait for the next chunk of the input, and too many to wait at once
    t.kind = MacKind::conv, t.kh = t.kw = 1, t.pt = t.pl = 0, t.group = 1;
    t.in_c = r.in(513, 800), t.out_c = coutg = r.in(16, 1300);
    t.in_h = r.in(1, 5), t.in_w = r.in(1, 5);
  }
  const bool narrow = r.in(0, 9) == 0;
  if (narrow) {  // or a 1x1 of few inputs and many pixels, now in whole blocks of channels, now not
    const int few[] = {1, 4, 7, 16, 24, 32, 45}, more[] = {8, 16, 24, 29, 48, 80};
    t.kind = MacKind::conv, t.kh = t.kw = 1, t.pt = t.pl = 0, t.group = 1;
    t.in_c = r.of(few), t.out_c = coutg = r.of(more);
    t.sh = r.in(1, 2), t.sw = r.in(0, 2) ? t.sh : r.in(1, 2);
    t.in_h = r.in(6, 24), t.in_w = r.in(6, 24);
  }
  const int past = narrow ? 0 : 3;  // pixels after the input
  int out_h, out_w;
  if (t.kind == MacKind::conv_transpose) {
    out_h = (t.in_h - 1) * t.sh + (t.kh - 1) * t.dh + 1 - t.pt + r.in(-2, 2);
    out_w = (t.in_w - 1) * t.sw + (t.kw - 1) * t.dw + 1 - t.pl + r.in(-2, 2);
  } else {
    out_h = (t.in_h + t.pt + r.in(0, past) - (t.kh - 1) * t.dh - 1) / t.sh + 1;
    out_w = (t.in_w + t.pl + r.in(0, past) - (t.kw - 1) * t.dw - 1) / t.sw + 1;
  }
  out_h = out_h < 1 ? 1 : out_h, out_w = out_w < 1 ? 1 : out_w;
  // a box of the output
  const bool whole = r.in(0, 1);
  t.oy = whole ? 0 : r.in(0, out_h - 1), t.ox = whole ? 0 : r.in(0, out_w - 1);
  t.oh = whole ? out_h : r.in(1, out_h - t.oy), t.ow = whole ? out_w : r.in(1, out_w - t.ox);
  t.oc = 0, t.on = t.out_c;
  if (!whole) {
    const int unit = t.kind == MacKind::depthwise ? t.out_c : coutg;
    t.oc = r.in(0, t.out_c / unit - 1) * unit + r.in(0, (unit - 1) / 16) * 16;
    t.on = r.in(0, 1) ? t.out_c - t.oc : r.in(1, t.out_c - t.oc);
  }
  // the view: what the box reads, clipped; found by asking every output and tap
  int y0 = t.in_h, y1 = -1, x0 = t.in_w, x1 = -1;
  for (int axis = 0; axis < 2; ++axis) {
    const int o0 = axis ? t.ox : t.oy, on = axis ? t.ow : t.oh, k = axis ? t.kw : t.kh, s = axis ? t.sw : t.sh;
    const int d = axis ? t.dw : t.dh, pad = axis ? t.pl : t.pt, size = axis ? t.in_w : t.in_h;
    int &lo = axis ? x0 : y0, &hi = axis ? x1 : y1;
    for (int o = o0; o < o0 + on; ++o)
      for (int j = 0; j < k; ++j) {
        int i = o * s - pad + j * d;
        if (t.kind == MacKind::conv_transpose) {
          if ((o + pad - j * d) % s != 0) continue;
          i = (o + pad - j * d) / s;
        }
        if (i < 0 || i >= size) continue;
        lo = i < lo ? i : lo, hi = i > hi ? i : hi;
      }
  }
  if (y1 < y0 || x1 < x0) y0 = x0 = 0, y1 = x1 = 0;
  t.view_y = y0, t.view_h = y1 - y0 + 1, t.view_x = x0, t.view_w = x1 - x0 + 1;
  // the last pixel of the view ends at the guard page right after its last channel, or a channel padding after it
  t.x_pixel = r.in(0, 2) ? t.in_c : (t.in_c + 3) / 4 * 4 + r.in(0, 2) * 4;
  t.x_row = t.view_w * t.x_pixel + r.in(0, 1) * r.in(0, 40);
  const size_t x_bytes = size_t(t.view_h - 1) * t.x_row + size_t(t.view_w - 1) * t.x_pixel + t.in_c;
  c->x = new Guarded(x_bytes);
  r.fill(c->x->data, x_bytes);
  if (r.in(0, winograd ? 1 : 4) == 0) memset(c->x->data, r.in(0, 2) ? -128 : 127, x_bytes);
  t.x = reinterpret_cast<int8_t *>(c->x->data);
  t.x_zp = r.in(0, 3) ? r.in(-128, 127) : 0, t.out_zp = r.in(-128, 127), t.act = r.in(0, 1);
  t.lo = r.in(0, 1) ? -128 : r.in(-128, 0), t.hi = r.in(0, 1) ? 127 : r.in(0, 127);
  const bool depthwise = t.kind == MacKind::depthwise;
  const int blocks = depthwise ? blocks_of(t.out_c) : t.group * blocks_of(coutg);
  make_weights(*c, r, t.kh * t.kw, t.in_c / t.group, blocks, coutg, depthwise, r.in(0, 3) == 0,
               winograd ? r.in(0, 2) * (r.in(0, 3) ? -64 : 63) : 0);
  if (narrow && r.in(0, 3)) {  // the plainest end: scales below 1/2, no table
    t.act = 0;
    for (size_t i = 0; i < c->params.size(); ++i)
      if (i % 64 / 16 == 1) c->params[i] = r.in(0, 9) ? r.in(1 << 14, 1 << 24) : (1 << 30) - 1, c->params[i + 16] = 31;
  }
  const int first = depthwise ? t.oc / 16 : t.oc / coutg * blocks_of(coutg) + t.oc % coutg / 16;
  t.params = c->params.data() + first * 64;
  t.w = c->w.data() + c->w.size() / size_t(blocks) * size_t(first);
  c->table.resize(1025);
  r.fill(c->table.data(), 2050);
  if (seed % 2) make_smooth_table(*c, r);
  t.table = c->table.data();
  t.y_pixel = t.on + r.in(0, 1) * r.in(0, 9), t.y_row = t.ow * t.y_pixel + r.in(0, 1) * r.in(0, 9);
  c->y_bytes = size_t(t.oh - 1) * t.y_row + size_t(t.ow - 1) * t.y_pixel + t.on;
  return c;
}

inline void describe(const axtool::MacTask &t) {
  printf("kind %d in %dx%dx%d out_c %d kernel %dx%d stride %dx%d dilation %dx%d pad %d,%d group %d box %d,%d,%d %dx%dx%d "
         "view %d,%d %dx%d x_pixel %d zp %d act %d\n",
         int(t.kind), t.in_h, t.in_w, t.in_c, t.out_c, t.kh, t.kw, t.sh, t.sw, t.dh, t.dw, t.pt, t.pl, t.group, t.oy,
         t.ox, t.oc, t.oh, t.ow, t.on, t.view_y, t.view_x, t.view_h, t.view_w, int(t.x_pixel), t.x_zp, t.act);
}
