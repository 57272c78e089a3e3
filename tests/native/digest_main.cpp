// A fixed battery of every op, through the engine -> one digest for each op. The digests must be the same on every CPU,
// for every instruction set and number of threads; see run_digests.sh.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "engine.h"

using namespace axtool;

struct Random {  // splitmix64: the same numbers everywhere
  uint64_t state;
  uint64_t next() {
    uint64_t z = (state += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9, z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  int64_t in(int64_t lo, int64_t hi) { return lo + int64_t(next() % uint64_t(hi - lo + 1)); }
  int64_t of(std::initializer_list<int64_t> values) { return values.begin()[in(0, int64_t(values.size()) - 1)]; }
};

// One layer and one command for all of its output, over memories of random bytes.
struct Case {
  Random &r;
  std::vector<int64_t> layer, views;
  int64_t reads = 0, part = 0;
  Dims out{};
  std::vector<int8_t> ext, ocm;

  void put(std::initializer_list<int64_t> values) { layer.insert(layer.end(), values); }

  // A view of the whole of `dims` at the end of a memory, and where its bytes begin.
  int64_t add_view(const Dims &dims, int memory, int64_t pixel, int64_t gap = 5) {
    std::vector<int8_t> &bytes = memory ? ocm : ext;
    const int64_t offset = int64_t(bytes.size() + 63) / 64 * 64, row = dims.w * pixel + r.of({0, 0, gap});
    bytes.resize(size_t(offset + (dims.h - 1) * row + (dims.w - 1) * pixel + dims.c));
    views.insert(views.end(), {memory, offset, 0, 0, 0, dims.h, dims.w, dims.c, row, pixel});
    return offset;
  }
  void read(const Dims &dims) {
    const int memory = int(r.in(0, 1));  // by name: the order in which arguments are evaluated is the compiler's
    const int64_t pixel = dims.c + r.of({0, 0, 3, 64});
    add_view(dims, memory, pixel), ++reads;
  }
  template <class T>
  void read_numbers(const std::vector<T> &numbers) {
    const int64_t bytes = int64_t(numbers.size() * sizeof(T)), offset = add_view({1, 1, bytes}, 0, bytes);
    memcpy(ext.data() + offset, numbers.data(), size_t(bytes));
    ++reads;
  }
};

static int64_t channels(Random &r) { return r.of({1, 3, 7, 16, 17, 32, 65, 96}); }
static Dims dims(Random &r) { return {r.in(1, 12), r.in(1, 12), channels(r)}; }
static int64_t byte(Random &r) { return r.in(-128, 127); }
static int64_t mantissa(Random &r) { return r.in(1 << 26, (int64_t(1) << 31) - 1); }

static void begin(Case &c, Op op, const Dims &in, const Dims &out) {
  c.out = out;
  c.put({int64_t(op), in.h, in.w, in.c, out.h, out.w, out.c});
}

static void mac(Case &c, Op op) {
  Random &r = c.r;
  const bool depthwise = op == Op::depthwise;
  Dims in = dims(r);
  const int64_t group = depthwise ? in.c : r.of({1, 1, 1, 2, 3}), share = channels(r);
  if (!depthwise) in.c *= group;
  const int64_t cout = depthwise ? in.c * r.of({1, 1, 2}) : group * share, cing = in.c / group;
  const int64_t kh = r.in(1, 5), kw = r.in(1, 5), sh = r.in(1, 2), sw = r.in(1, 2), dh = r.in(1, 2), dw = r.in(1, 2);
  const int64_t pt = r.in(0, 4), pl = r.in(0, 4), act = r.in(0, 1);
  const Dims out = op == Op::conv_transpose ? Dims{in.h * sh, in.w * sw, cout} : Dims{(in.h - 1) / sh + 1, (in.w - 1) / sw + 1, cout};
  begin(c, op, in, out);
  c.put({kh, kw, sh, sw, dh, dw, pt, pl, group, byte(r), byte(r), -128, 127, act});
  c.read(in);
  const int64_t per_group = depthwise ? (cout + 15) / 16 : (share + 15) / 16, blocks = depthwise ? per_group : group * per_group;
  const int64_t depth = depthwise ? 1 : (cing + 3) / 4 * 4, taps = kh * kw;
  std::vector<int8_t> weights(size_t(blocks * taps * depth * 16));
  std::vector<int32_t> params(size_t(blocks * 64));
  for (int64_t b = 0; b < blocks; ++b)
    for (int64_t lane = 0; lane < 16; ++lane) {
      int32_t sum = 0;
      for (int64_t tap = 0; tap < taps; ++tap)
        for (int64_t i = 0; i < (depthwise ? 1 : cing); ++i) {
          const int64_t v = byte(r), at = depthwise ? lane : i / 4 * 64 + lane * 4 + i % 4;
          weights[size_t((b * taps + tap) * depth * 16 + at)] = int8_t(v), sum += int32_t(v);
        }
      int32_t *p = params.data() + b * 64 + lane;
      p[0] = int32_t(r.in(-30000, 30000)), p[16] = int32_t(mantissa(r) / 512), p[32] = 31, p[48] = sum;
    }
  c.read_numbers(weights);
  c.read_numbers(params);
  if (!act) return;
  std::vector<int16_t> table(1025);
  for (int16_t &v : table) v = int16_t(r.in(-16384, 16383));
  c.read_numbers(table);
}

static void two(Case &c, Op op) {
  Random &r = c.r;
  const Dims d = dims(r), b{r.in(0, 1) ? d.h : 1, r.in(0, 1) ? d.w : 1, r.in(0, 1) ? d.c : 1};
  const int64_t scale = r.of({1, 16, 512});
  begin(c, op, d, d);
  c.put({d.h, d.w, d.c, b.h, b.w, b.c});
  if (op == Op::add) c.put({byte(r), mantissa(r), r.in(28, 31), byte(r), mantissa(r), r.in(28, 31), byte(r), -128, 127, r.in(0, 1)});
  else c.put({byte(r), byte(r), mantissa(r) / scale, 31, byte(r), -100, 127});
  c.read(d), c.read(b);
}

static void pool(Case &c, Op op) {
  Random &r = c.r;
  const Dims in = dims(r);
  const int64_t s = r.in(1, 3);
  begin(c, op, in, {(in.h - 1) / s + 1, (in.w - 1) / s + 1, in.c});
  c.put({r.in(1, 13), r.in(1, 5), s, s, r.in(1, 2), r.in(1, 2), r.in(0, 4), r.in(0, 4)});
  c.read(in);
  if (op == Op::max_pool) return;
  c.put({r.in(0, 3), r.in(0, 3), r.in(0, 1), byte(r), byte(r), -128, 127});
  std::vector<int32_t> constants;
  for (int32_t count = 1; count <= 65; ++count) constants.insert(constants.end(), {count, INT32_MAX / count, 31});
  c.read_numbers(constants);
}

static void one(Case &c, Op op) {
  Random &r = c.r;
  const Dims in = dims(r);
  const int64_t fy = r.in(1, 3), fx = r.in(1, 3), big = r.in(1, 3);
  switch (op) {
    case Op::concat: {
      begin(c, op, in, {in.h, in.w, in.c + 5});
      c.put({2, byte(r), 0, byte(r), r.in(0, 1) ? mantissa(r) : 0, 31, in.c, 0, 0, 0});
      return c.read(in);
    }
    case Op::requantize: begin(c, op, in, in), c.put({byte(r), mantissa(r), r.in(29, 31), byte(r), -90, 127}); return c.read(in);
    case Op::slice: {
      begin(c, op, in, {in.h, (in.w + 1) / 2, in.c});
      c.put({in.h - 1, 0, 0, -1, 2, 1});
      return c.read(in);
    }
    case Op::pad: begin(c, op, in, {in.h + 3, in.w + 4, in.c + 2}), c.put({1, 2, 1, r.in(0, 2), byte(r)}); return c.read(in);
    case Op::resize_nearest: begin(c, op, in, {in.h * fy, in.w * fx, in.c}), c.put({fy, fx}); return c.read(in);
    case Op::resize_linear: {
      begin(c, op, in, {in.h * fy, in.w * fx, in.c});
      c.put({fy, fx, r.in(0, 1), byte(r), mantissa(r) / (4 * fy * fx), r.of({29, 31}), byte(r)});
      return c.read(in);
    }
    case Op::lut: {
      const int64_t each = r.in(0, 1);
      begin(c, op, in, in), c.put({each}), c.read(in);
      std::vector<int8_t> table(size_t(each ? in.c * 256 : 256));
      for (int8_t &v : table) v = int8_t(byte(r));
      return c.read_numbers(table);
    }
    case Op::transpose: begin(c, op, in, {in.c, in.h, in.w}), c.put({2, 0, 1}); return c.read(in);
    case Op::reshape: begin(c, op, in, {1, in.c, in.h * in.w}); return c.read(in);
    case Op::depth_to_space: {
      begin(c, op, {in.h, in.w, in.c * big * big}, {in.h * big, in.w * big, in.c}), c.put({big, r.in(0, 1)});
      return c.read({in.h, in.w, in.c * big * big});
    }
    default: {
      begin(c, op, {in.h * big, in.w * big, in.c}, {in.h, in.w, in.c * big * big}), c.put({big});
      return c.read({in.h * big, in.w * big, in.c});
    }
  }
}

// ---- int16: dims in numbers, `bytes` of each in memory ---------------------------------------------------------------

static int64_t end_of(int64_t bytes) { return bytes == 2 ? 32767 : 127; }
static Dims stored(const Dims &d, int64_t bytes) { return {d.h, d.w, d.c * bytes}; }
static int64_t zero_point(Random &r, int64_t bytes) { return bytes == 2 ? r.in(0, 0) : byte(r); }

// A view whose numbers begin at even addresses.
static void read_wide(Case &c, const Dims &d, int64_t bytes) {
  const int memory = int(c.r.in(0, 1));
  const int64_t pixel = d.c * bytes + c.r.of({0, 0, 4, 64});
  c.add_view(stored(d, bytes), memory, pixel, 6), ++c.reads;
}

static void wide_mac(Case &c, Op op) {
  Random &r = c.r;
  const bool depthwise = op == Op::wide_depthwise;
  Dims in = dims(r);
  const int64_t group = depthwise ? in.c : r.of({1, 1, 1, 2, 3}), share = channels(r);
  if (!depthwise) in.c *= group;
  const int64_t cout = depthwise ? in.c * r.of({1, 1, 2}) : group * share, cing = in.c / group;
  const int64_t kh = r.in(1, 5), kw = r.in(1, 5), sh = r.in(1, 2), sw = r.in(1, 2), dh = r.in(1, 2), dw = r.in(1, 2);
  const int64_t pt = r.in(0, 4), pl = r.in(0, 4), act = r.in(0, 1), x_bytes = act ? 2 : r.in(1, 2);
  const int64_t out_bytes = act ? 1 : x_bytes == 1 ? 2 : r.in(1, 2), x_zp = zero_point(r, x_bytes);
  const int64_t out_zp = zero_point(r, out_bytes);
  const Dims out{(in.h - 1) / sh + 1, (in.w - 1) / sw + 1, cout};
  begin(c, op, stored(in, x_bytes), stored(out, out_bytes));
  c.put({kh, kw, sh, sw, dh, dw, pt, pl, group, x_zp, out_zp, -end_of(out_bytes), end_of(out_bytes), act, x_bytes, out_bytes});
  read_wide(c, in, x_bytes);
  const int64_t per_group = depthwise ? (cout + 15) / 16 : (share + 15) / 16, blocks = depthwise ? per_group : group * per_group;
  const int64_t depth = depthwise ? 1 : (cing + 3) / 4 * 4;
  std::vector<int8_t> weights(size_t(blocks * kh * kw * depth * 16));
  for (int8_t &w : weights) w = int8_t(byte(r));
  std::vector<int32_t> params(size_t(blocks * 64));
  for (int64_t b = 0; b < blocks; ++b)
    for (int64_t lane = 0; lane < 16; ++lane) {
      int32_t *p = params.data() + b * 64 + lane;
      p[0] = int32_t(r.in(-INT32_MAX, INT32_MAX)), p[16] = int32_t(mantissa(r) / 512), p[32] = int32_t(r.of({31, 31, 28, 19}));
    }
  c.read_numbers(weights), c.read_numbers(params);
  if (!act) return;
  std::vector<int16_t> table(1025);
  for (int16_t &v : table) v = int16_t(r.in(-16384, 16383));
  c.read_numbers(table);
}

static void wide_two(Case &c, Op op) {
  Random &r = c.r;
  const Dims d = dims(r), b{r.in(0, 1) ? d.h : 1, r.in(0, 1) ? d.w : 1, r.in(0, 1) ? d.c : 1};
  const int64_t a_bytes = r.in(1, 2), b_bytes = r.in(1, 2), out_bytes = a_bytes + b_bytes == 2 ? 2 : r.in(1, 2);
  const int64_t zp_a = zero_point(r, a_bytes), zp_b = zero_point(r, b_bytes), out_zp = zero_point(r, out_bytes);
  begin(c, op, stored(d, a_bytes), stored(d, out_bytes));
  c.put({d.h, d.w, d.c, b.h, b.w, b.c});
  const int64_t scale = r.of({1, 16, 65536}), m_a = mantissa(r), f_a = r.in(14, 31), m_b = mantissa(r), f_b = r.in(14, 31);
  if (op == Op::wide_add) c.put({zp_a, m_a, f_a, zp_b, m_b, f_b});
  else c.put({zp_a, zp_b, m_a / scale, f_a});
  c.put({out_zp, -end_of(out_bytes), end_of(out_bytes)});
  if (op == Op::wide_add) c.put({int64_t(scale == 1)});
  c.put({a_bytes, b_bytes, out_bytes});
  read_wide(c, d, a_bytes), read_wide(c, b, b_bytes);
}

static void wide_one(Case &c, Op op) {
  Random &r = c.r;
  const Dims in = dims(r);
  const int64_t x_bytes = r.in(1, 2), out_bytes = x_bytes == 1 ? 2 : r.in(1, 2), s = r.in(1, 3);
  const int64_t zp = zero_point(r, x_bytes), out_zp = zero_point(r, out_bytes), m = mantissa(r), f = r.in(14, 31);
  const bool pool = op == Op::wide_avg_pool;
  const Dims out = pool ? Dims{(in.h - 1) / s + 1, (in.w - 1) / s + 1, in.c} : in;
  begin(c, op, stored(in, x_bytes), stored(out, out_bytes));
  if (op == Op::wide_requantize) c.put({zp, m, f, out_zp});
  if (pool) {
    const int64_t kh = r.in(1, 13), kw = r.in(1, 5), pad = r.in(0, 4), end = r.in(0, 3), counted = r.in(0, 1);
    c.put({kh, kw, s, s, 1, 2, pad, pad, end, end, counted, zp, out_zp});
  }
  c.put({-end_of(out_bytes), end_of(out_bytes), x_bytes, out_bytes});
  read_wide(c, in, x_bytes);
  if (op == Op::wide_lut && x_bytes == 1) {
    std::vector<int16_t> table(256);
    for (int16_t &v : table) v = int16_t(r.next());
    c.read_numbers(table);
  } else if (op == Op::wide_lut) {
    std::vector<int32_t> table(1025);
    for (int32_t &v : table) v = int32_t(r.next()) / int32_t(r.of({1, 256, 65536}));
    c.read_numbers(table);
  } else if (pool) {
    std::vector<int32_t> constants;
    for (int32_t count = 1; count <= 65; ++count) constants.insert(constants.end(), {count, INT32_MAX / count, int32_t(f)});
    c.read_numbers(constants);
  }
}

// ---- ops that look at all channels of a pixel ------------------------------------------------------------------------

// Numbers of four bytes, dense: pixels have no gaps, and lie in ext behind random bytes of their own.
static void fx_row(Case &c, Op op, Dims in) {
  Random &r = c.r;
  begin(c, op, stored(in, 4), stored(in, 4));
  if (op == Op::fx_softmax) c.put({r.in(0, 31), r.in(20, 31), r.in(0, 1), 4, 4});
  else c.put({r.in(10, 50), r.in(0, 1) ? int64_t(1) << 30 : 0, r.in(-60, 40), r.in(0, 3), 4, 4});
  const int64_t offset = c.add_view(stored(in, 4), 0, in.c * 4, 8), bytes = int64_t(c.ext.size()) - offset;
  ++c.reads;
  const int64_t spread = r.of({3, 1 << 20, INT32_MAX});
  for (int64_t at = 0; at + 4 <= bytes; at += 4) {
    const int32_t v = int32_t(r.in(-spread, spread));
    memcpy(c.ext.data() + offset + at, &v, 4);
  }
  if (op == Op::fx_softmax) return;
  std::vector<int32_t> pairs(size_t(2 * in.c));
  for (int32_t &v : pairs) v = int32_t(r.in(-INT32_MAX, INT32_MAX));
  c.read_numbers(pairs);
}

static void row(Case &c, Op op) {
  Random &r = c.r;
  const Dims in = dims(r);
  if (op == Op::arg_max) {
    const int64_t flat = r.in(0, 1);
    begin(c, op, in, flat ? Dims{1, in.h, in.w * 4} : Dims{in.h, in.w, 4});
    return c.put({flat, r.in(0, 1), 1, 4}), c.read(in);
  }
  if (op == Op::fx_softmax || op == Op::fx_layer_norm) return fx_row(c, op, in);
  begin(c, op, in, in);
  if (op == Op::softmax) c.put({mantissa(r), r.in(20, 31), byte(r), -128, 127, 1});
  else c.put({r.in(18, 29), byte(r), -128, 127, r.in(0, 1) ? int64_t(1) << 30 : 0, r.in(-60, 40), r.in(0, 3)});
  c.read(in);
  if (op == Op::softmax) {
    std::vector<uint16_t> table(256);
    for (size_t d = 0; d < table.size(); ++d) table[d] = uint16_t(d < 100 ? 4096 - d * 40 : 0);
    return c.read_numbers(table);
  }
  std::vector<int32_t> pairs(size_t(2 * in.c));
  for (int32_t &v : pairs) v = int32_t(r.in(-(1 << 29), 1 << 29)) / int32_t(r.of({1, 64}));
  c.read_numbers(pairs);
}

// ---- fx32 and fp16: random bytes are numbers of either -----------------------------------------------------------------

static void read_fx(Case &c, const Dims &d, int64_t bytes) {
  const int memory = int(c.r.in(0, 1));
  const int64_t pixel = d.c * bytes + c.r.of({0, 0, 4, 64});
  c.add_view(stored(d, bytes), memory, pixel, 8), ++c.reads;
}

static std::vector<uint16_t> halves(Random &r, int64_t count) {
  std::vector<uint16_t> made(static_cast<size_t>(count));
  for (uint16_t &v : made) v = uint16_t(r.next() & 0x83ff) | uint16_t(r.in(8, 16) << 10);
  return made;
}

static void linear(Case &c, const Dims &in) {
  Random &r = c.r;
  const Dims out{in.h, in.w, channels(r)};
  const int64_t x_bytes = r.of({1, 2, 4}), out_bytes = r.of({2, 4}), rows = r.in(0, 1) ? in.h * in.w : 1;
  const int64_t blocks = (out.c + 15) / 16, zp = x_bytes == 1 ? byte(r) : 0;
  begin(c, Op::fp16_linear, stored(in, x_bytes), stored(out, out_bytes));
  c.put({zp, mantissa(r), r.in(-2, 8), r.in(16, 31), r.in(0, 31), r.in(0, 1), rows, x_bytes, out_bytes});
  if (x_bytes == 2) {  // by itself: most random halves are too large for a sum
    const int64_t offset = c.add_view(stored(in, 2), 0, in.c * 2, 0);
    const std::vector<uint16_t> x = halves(r, in.h * in.w * in.c);
    memcpy(c.ext.data() + offset, x.data(), x.size() * 2), ++c.reads;
  } else {
    read_fx(c, in, x_bytes);
  }
  c.read_numbers(halves(r, blocks * in.c * 16));
  std::vector<float> bias(size_t(blocks * rows * 16));
  for (float &v : bias) v = float(r.in(-9999, 9999)) / 64;
  c.read_numbers(bias);
}

static void mixed(Case &c, Op op) {
  Random &r = c.r;
  const Dims d = dims(r), b{r.in(0, 1) ? d.h : 1, r.in(0, 1) ? d.w : 1, r.in(0, 1) ? d.c : 1};
  if (op == Op::fp16_linear) return linear(c, d);
  const bool two = op == Op::fx_add || op == Op::fx_mul, any = op == Op::fx_quantize, from = op == Op::fx_dequantize;
  const int64_t x_bytes = op == Op::fx_from_fp16 ? 2 : from ? r.in(1, 2) : 4;
  const int64_t out_bytes = op == Op::fp16_from_fx ? 2 : any ? r.in(1, 2) : 4;
  const int64_t half = int64_t(1) << (8 * out_bytes - 1), lo = r.of({-half, -half, -77}), hi = half - 1;
  begin(c, op, stored(d, x_bytes), stored(d, out_bytes));
  if (two) c.put({d.h, d.w, d.c, b.h, b.w, b.c});
  if (op == Op::fx_add) c.put({r.in(-3, 5), r.in(-3, 5), lo, hi, r.in(0, 1)});
  if (op == Op::fx_mul) c.put({r.in(-4, 62), lo, hi});
  if (op == Op::fx_requantize) c.put({r.in(-30, 33), lo, hi});
  if (any) c.put({mantissa(r), r.in(0, 40), r.in(0, 24), zero_point(r, out_bytes), lo, hi});
  if (from) c.put({zero_point(r, x_bytes), mantissa(r), r.in(-8, 12)});
  const int64_t interval = r.in(0, 20);
  if (op == Op::fx_lut) c.put({-(int64_t(1) << (11 + interval)), interval});
  if (op == Op::fx_from_fp16 || op == Op::fp16_from_fx) c.put({r.in(0, 31)});
  if (two) c.put({4});
  c.put({x_bytes, out_bytes});
  read_fx(c, d, x_bytes);
  if (two) read_fx(c, b, 4);
  if (op != Op::fx_lut) return;
  std::vector<int32_t> points((1 << 12) + 1);
  for (int32_t &v : points) v = int32_t(r.next());
  c.read_numbers(points);
}

// ---- products of two activations --------------------------------------------------------------------------------------

// A tensor of fp16 numbers whose sums stay finite.
static void read_halves(Case &c, const Dims &d) {
  const int64_t offset = c.add_view(stored(d, 2), 0, d.c * 2, 0);
  const std::vector<uint16_t> x = halves(c.r, d.h * d.w * d.c);
  memcpy(c.ext.data() + offset, x.data(), x.size() * 2), ++c.reads;
}

static void product(Case &c, Op op) {
  Random &r = c.r;
  const bool fp16 = op == Op::fp16_matmul || op == Op::fp16_attention;
  const int64_t bytes = fp16 ? 2 : 1, out_bytes = fp16 ? r.of({2, 4}) : 1, length = r.in(1, 70), keys = r.in(1, 70);
  auto read = [&](const Dims &d) { fp16 ? read_halves(c, d) : c.read(d); };
  if (op == Op::matmul || op == Op::fp16_matmul) {
    const int64_t h = r.in(1, 3), k = channels(r), turned = r.in(0, 1);
    const Dims b{r.in(0, 1) ? h : 1, turned ? keys : k, turned ? k : keys};
    begin(c, op, stored({h, length, k}, bytes), stored({h, length, keys}, out_bytes));
    c.put({b.h, b.w, b.c, turned});
    if (fp16) c.put({r.in(0, 24), 2, 2, out_bytes});
    else c.put({byte(r), byte(r), mantissa(r), r.in(31, 31), byte(r), -128, 127});
    return read({h, length, k}), read(b);
  }
  const int64_t heads = r.of({1, 2, 3, 8}), depth = heads * r.in(1, 33), made = heads * r.in(1, 33), mask = r.in(0, 2);
  begin(c, op, stored({1, length, depth}, bytes), stored({1, length, made}, out_bytes));
  c.put({heads, keys, mask});
  if (fp16) c.put({0x3e800000, r.in(0, 31), r.in(0, 24), r.in(0, 1), 2, out_bytes});  // a quarter
  else c.put({byte(r), byte(r), mantissa(r) >> 9, 31, byte(r), byte(r), mantissa(r), r.in(20, 31), byte(r), mantissa(r), 31, byte(r), 1});
  read({1, length, depth}), read({1, keys, depth}), read({1, keys, made});
  if (mask) read({1, mask == 2 ? length : 1, keys});
  if (fp16) return;
  std::vector<uint16_t> table(256);
  for (size_t d = 0; d < table.size(); ++d) table[d] = uint16_t(d < 100 ? 4096 - d * 40 : 0);
  c.read_numbers(table);
}

static bool is_product(Op op) {
  return op == Op::matmul || op == Op::attention || op == Op::fp16_matmul || op == Op::fp16_attention;
}
static bool is_mixed(Op op) { return op >= Op::fx_add && op <= Op::fp16_linear; }
static bool is_wide(Op op) { return op >= Op::wide_conv && op <= Op::wide_avg_pool; }
static bool is_row(Op op) {
  return op == Op::softmax || op == Op::layer_norm || op == Op::arg_max || op == Op::fx_softmax || op == Op::fx_layer_norm;
}
// Ops of int8 and int16, of rows, of products, and of fx32 and fp16 have random cases here.
static bool has_cases(Op op) { return op <= Op::wide_avg_pool || is_row(op) || is_product(op) || is_mixed(op); }

static Case make_case(Random &r, Op op) {
  Case c{r, {}, {}, 0, 0, {}, {}, {}};
  if (op == Op::wide_conv || op == Op::wide_depthwise) wide_mac(c, op);
  else if (op == Op::wide_add || op == Op::wide_mul) wide_two(c, op);
  else if (is_wide(op)) wide_one(c, op);
  else if (is_row(op)) row(c, op);
  else if (is_product(op)) product(c, op);
  else if (is_mixed(op)) mixed(c, op);
  else if (op <= Op::conv_transpose) mac(c, op);
  else if (op == Op::add || op == Op::mul) two(c, op);
  else if (op == Op::max_pool || op == Op::avg_pool) pool(c, op);
  else one(c, op);
  const int64_t size = number_bytes(decode_layer(c.layer.data(), int64_t(c.layer.size())), -1);
  c.add_view(c.out, 1, c.out.c + r.of({0, size == 4 ? 4 : 2}), size == 4 ? 8 : size == 2 ? 6 : 5);
  return c;
}

static uint64_t digest(uint64_t seed, const std::vector<int8_t> &bytes) {  // FNV-1a
  for (int8_t b : bytes) seed = (seed ^ uint8_t(b)) * 0x100000001b3;
  return seed;
}

static uint64_t run_case(Case c, Isa isa, int threads) {
  c.ext.reserve(c.ext.size() + 64), c.ocm.reserve(c.ocm.size() + 64);
  std::vector<int64_t> command = {0, 0, 0, c.part, c.reads, 1, 0, 0, 0, c.out.h, c.out.w, c.out.c};
  command.insert(command.end(), c.views.begin(), c.views.end());
  const int64_t layer_offsets[] = {0, int64_t(c.layer.size())}, command_offsets[] = {0, int64_t(command.size())};
  const Sizes sizes{{int64_t(c.ext.size()), int64_t(c.ocm.size())}};
  Engine engine({c.layer.data(), int64_t(c.layer.size()), layer_offsets, 2},
                {command.data(), int64_t(command.size()), command_offsets, 2}, sizes, threads, isa, true, {});
  engine.run({c.ext.data(), sizes.bytes[0]}, {c.ocm.data(), sizes.bytes[1]}, {}, {});
  return digest(digest(0xcbf29ce484222325, c.ext), c.ocm);
}

// Bytes that nothing set: small numbers of either sign, the same for every run of a case.
static void fill(Case &c, Random &r) {
  for (std::vector<int8_t> *bytes : {&c.ext, &c.ocm})
    for (int8_t &b : *bytes)
      if (!b) b = int8_t(r.next());
}

int main(int argc, char **argv) {
  const int count = argc > 1 ? atoi(argv[1]) : 40;
  int failures = 0;
  std::string tried;
  for (Isa isa : {Isa::portable, Isa::avx2, Isa::avxvnni, Isa::avx512vnni, Isa::neon_dot})
    if (isa_available(isa)) tried += std::string(" ") + isa_name(isa);
  fprintf(stderr, "instruction sets:%s\n", tried.c_str());
  for (size_t op = 0; op < op_fields().size(); ++op) {
    Random r{op * 1000003 + 17};
    if (!has_cases(Op(op))) continue;
    uint64_t all = 0;
    for (int i = 0; i < count; ++i) {
      Case c = make_case(r, Op(op));
      const bool numbers = Op(op) <= Op::conv_transpose || Op(op) == Op::avg_pool || Op(op) == Op::lut ||
                           is_row(Op(op)) || is_product(Op(op)) || Op(op) == Op::fx_lut || Op(op) == Op::fp16_linear;
      const bool wide_numbers = Op(op) == Op::wide_conv || Op(op) == Op::wide_depthwise || Op(op) == Op::wide_lut || Op(op) == Op::wide_avg_pool;
      if (!numbers && !wide_numbers) fill(c, r);
      else for (int8_t &b : c.ocm) b = b ? b : int8_t(r.next());
      const uint64_t want = run_case(c, Isa::portable, 1);
      all = all * 31 + want;
      for (Isa isa : {Isa::portable, Isa::avx2, Isa::avxvnni, Isa::avx512vnni, Isa::neon_dot})
        for (int threads = 1; threads <= 2 && isa_available(isa); ++threads)
          if (run_case(c, isa, threads) != want)
            ++failures, fprintf(stderr, "%s case %d: %s with %d threads differs\n", op_fields()[op].name, i, isa_name(isa), threads);
    }
    printf("%-16s %016llx\n", op_fields()[op].name, (unsigned long long)all);
  }
  return failures != 0;
}
