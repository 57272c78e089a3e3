// Layers and commands as rows of integers: the mirror of axtool/ops/encoding.py, in the same order.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "views.h"

namespace axtool {

enum class Op : int {
  conv, depthwise, conv_transpose, add, mul, concat, requantize, slice, pad, max_pool, avg_pool, resize_nearest,
  resize_linear, lut, transpose, reshape, depth_to_space, space_to_depth, wide_conv, wide_depthwise, wide_add, wide_mul,
  wide_requantize, wide_lut, wide_avg_pool, matmul, attention, softmax, layer_norm, arg_max, fx_softmax, fx_layer_norm,
  fx_add, fx_mul, fx_requantize,
  fx_quantize, fx_dequantize, fx_lut, fx_from_fp16, fp16_from_fx, fp16_linear, fp16_matmul, fp16_attention, custom
};
enum class Kind : int { compute, load, store, move };

struct Field {
  const char *name;
  int width;  // integers; -1 takes the rest of the row
};
struct OpFields {
  const char *name;
  std::vector<Field> fields;
};
const std::vector<OpFields> &op_fields();  // indexed by Op

// What computes a custom op: boxes in one piece, their (h, w, c) and that of the output, the numbers. 0, or what failed.
using Function = int32_t (*)(const int8_t *const *inputs, int64_t input_count, const int64_t *dims,
                             const uint8_t *numbers, int64_t number_bytes, int8_t *output);

struct Layer {
  Op op;
  Dims in, out;  // of the first input and of the output
  std::vector<int64_t> values;
  Function function = nullptr;  // of a custom op

  const char *name() const { return op_fields()[size_t(op)].name; }
  int64_t get(const char *field, int index = 0) const;
};

struct Command {
  Kind kind;
  int64_t layer, part;
  Box tile;
  std::vector<View> reads, writes;
};

// Why a row is refused; the engine adds which row it was.
struct Refusal : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

// want(ok, "what is wrong: ", number, box, ...): the words are put together only when they are needed.
inline std::string said(const std::string &text) { return text; }
inline std::string said(const char *text) { return text; }
inline std::string said(int64_t number) { return std::to_string(number); }
inline std::string said(const Box &box) { return to_string(box); }
template <class... Words>
void want(bool ok, const Words &...words) {
  if (!ok) throw Refusal((said(words) + ...));
}

Layer decode_layer(const int64_t *row, int64_t length);
Command decode_command(const int64_t *row, int64_t length);

}  // namespace axtool
