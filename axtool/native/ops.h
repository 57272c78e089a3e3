// What the engine knows about an op: how its layer is checked, what a box of output needs, and the call that makes it.
// Meaning: axtool/ops/reference*.py. One file a family in ops/.
#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "loops.h"
#include "mac/mac.h"
#include "rows.h"

namespace axtool {

constexpr int kMaxReads = 5;

// A view with a pointer: `p` addresses element (box.y, box.x, box.c).
template <class Byte>
struct Span {
  Byte *p;
  Box box;
  int64_t row, pixel;

  Byte *at(int64_t y, int64_t x, int64_t c) const {
    return p + (y - box.y) * row + (x - box.x) * pixel + (c - box.c);
  }
  Byte *flat(int64_t byte) const { return p + (byte - box.c); }  // of weights, params and tables
};
using Source = Span<const int8_t>;
using Sink = Span<int8_t>;

// One output box of one layer, on one thread.
struct Call {
  const Layer &layer;
  Box tile;
  int64_t part;
  Source reads[kMaxReads];
  Sink write;
  Isa isa;
  const Loops &loops;
  void *scratch;  // 64-byte aligned
  const MacFrozen *frozen = nullptr;  // of a MAC layer's step, see Engine::freeze
  const int8_t *values = nullptr;     // and of its table
};

struct OpInfo {
  int reads;                                                             // act 1 adds one
  void (*check)(const Layer &);                                          // throws Refusal
  void (*needs)(const Layer &, const Box &tile, int64_t part, Box *of);  // the box of each read; may be empty
  size_t (*scratch)(const Call &);
  void (*run)(const Call &);
  bool elementwise;                                                      // may write over a read of the same box
};
const OpInfo &op_info(Op op);

// A command's operands: as many as `op_info(op).reads`, and the table of a MAC op with act 1, or a mask.
int reads_of(const Layer &layer);
// How many reads of an op, from the first, are tensors.
int tensor_reads(const Layer &layer);
// Bytes of a number of a read, or of the result (read -1): int32 params and counts, tables; of a tensor what the fields
// x_bytes, a_bytes, b_bytes and out_bytes say, 1 without them.
int number_bytes(const Layer &layer, int read);
// The part of the tile that the command fills (all of it, but for concat).
Box written(const Layer &layer, const Box &tile, int64_t part);

// ---- shared by the families ----------------------------------------------------------------------------------------

inline int64_t clamp(int64_t v, int64_t lo, int64_t hi) { return v < lo ? lo : v > hi ? hi : v; }
inline int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }
inline int64_t ceil_div(int64_t a, int64_t b) { return -floor_div(-a, b); }
inline int64_t round_up(int64_t v, int64_t to) { return ceil_div(v, to) * to; }

// floor(acc * m / 2^f + 1/2); |acc| <= 2^31, |m| < 2^31 and f <= 62 keep it inside int64.
inline int64_t requantize(int64_t acc, int64_t m, int64_t f) {
  return (acc * m + (f ? int64_t(1) << (f - 1) : 0)) >> f;
}

void check_int8(const Layer &layer, const char *field);
void check_scale(const Layer &layer, const char *m, const char *f);
void check_limits(const Layer &layer);  // lo, hi
void check_same_dims(const Layer &layer);
void check_same_numbers(const Layer &layer);  // with x_bytes and out_bytes a number
void needs_same_numbers(const Layer &layer, const Box &bytes, int64_t part, Box *of);
// of a wide op: bytes of its operands (the last is the output's), and how its channels divide into numbers
void check_bytes(const Layer &layer, std::initializer_list<const char *> fields);
void check_zero_point(const Layer &layer, const char *field, const char *bytes);
void check_wide_limits(const Layer &layer);
// A box of the output whose channels are counted in numbers; throws Refusal if it cuts one.
Box in_numbers(const Layer &layer, const Box &tile);
inline Box in_bytes(Box numbers, int64_t bytes) { return numbers.c *= bytes, numbers.n *= bytes, numbers; }

// Windows: kernel, stride, dilation and pad of an axis (0 rows, 1 columns).
struct Window {
  int64_t kernel, stride, dilation, pad;
};
Window window_of(const Layer &layer, int axis);
void check_window(const Layer &layer);
struct Interval {
  int64_t first, count;
};
// Input positions that the outputs [at, at + count) look at, inside [0, size). count may be 0 or less.
Interval looked_at(const Window &window, int64_t at, int64_t count, int64_t size);
// Taps [first, first + count) of the output at `at` that are inside [0, size).
Interval taps_inside(const Window &window, int64_t at, int64_t size);

void copy_box(const int8_t *x, int64_t x_row, int64_t x_pixel, int8_t *y, int64_t y_row, int64_t y_pixel, int64_t h,
              int64_t w, int64_t n);
inline void copy_box(const Source &x, const Sink &y, const Box &from, const Box &to) {
  copy_box(x.at(from.y, from.x, from.c), x.row, x.pixel, y.at(to.y, to.x, to.c), y.row, y.pixel, to.h, to.w, to.n);
}

extern const OpInfo conv_op, depthwise_op, conv_transpose_op, add_op, mul_op, concat_op, requantize_op, slice_op, pad_op,
    max_pool_op, avg_pool_op, resize_nearest_op, resize_linear_op, lut_op, transpose_op, reshape_op, depth_to_space_op,
    space_to_depth_op, wide_conv_op, wide_depthwise_op, wide_add_op, wide_mul_op, wide_requantize_op, wide_lut_op,
    wide_avg_pool_op, matmul_op, attention_op, softmax_op, layer_norm_op, arg_max_op, fx_softmax_op,
    fx_layer_norm_op, fx_add_op, fx_mul_op, fx_requantize_op,
    fx_quantize_op, fx_dequantize_op, fx_lut_op, fx_from_fp16_op, fp16_from_fx_op, fp16_linear_op, fp16_matmul_op,
    fp16_attention_op, custom_op;

}  // namespace axtool
