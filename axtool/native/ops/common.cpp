// The table of the ops, and the checks and geometry that their families share.
#include <algorithm>
#include <cstring>

#include "../ops.h"

namespace axtool {

const OpInfo &op_info(Op op) {
  static const OpInfo *const table[] = {
      &conv_op,     &depthwise_op, &conv_transpose_op, &add_op,           &mul_op,           &concat_op,
      &requantize_op, &slice_op,   &pad_op,            &max_pool_op,      &avg_pool_op,      &resize_nearest_op,
      &resize_linear_op, &lut_op,  &transpose_op,      &reshape_op,       &depth_to_space_op, &space_to_depth_op,
      &wide_conv_op, &wide_depthwise_op, &wide_add_op, &wide_mul_op,     &wide_requantize_op, &wide_lut_op,
      &wide_avg_pool_op, &matmul_op, &attention_op,    &softmax_op,       &layer_norm_op,    &arg_max_op,
      &fx_softmax_op, &fx_layer_norm_op, &fx_add_op,
      &fx_mul_op,     &fx_requantize_op, &fx_quantize_op, &fx_dequantize_op, &fx_lut_op,     &fx_from_fp16_op,
      &fp16_from_fx_op, &fp16_linear_op, &fp16_matmul_op, &fp16_attention_op, &custom_op};
  return *table[size_t(op)];
}

static bool is_mac(Op op) {
  return op == Op::conv || op == Op::depthwise || op == Op::conv_transpose || op == Op::wide_conv ||
         op == Op::wide_depthwise;
}

int reads_of(const Layer &layer) {
  if (layer.op == Op::custom) return tensor_reads(layer) + 1;
  const bool attention = layer.op == Op::attention || layer.op == Op::fp16_attention;
  const bool one_more = is_mac(layer.op) ? layer.get("act") : attention && layer.get("mask");
  return op_info(layer.op).reads + (one_more ? 1 : 0);
}

int tensor_reads(const Layer &layer) {
  switch (layer.op) {
    case Op::attention:
    case Op::fp16_attention: return layer.get("mask") ? 4 : 3;
    case Op::custom: return int(layer.values.size() / 3) - 1;  // dims of each, and three fields beside
    case Op::matmul:
    case Op::fp16_matmul:
    case Op::add:
    case Op::mul:
    case Op::wide_add:
    case Op::wide_mul:
    case Op::fx_add:
    case Op::fx_mul: return 2;
    default: return 1;
  }
}

// The fields of an op that say how large the numbers of its reads and of its result are; null where they have one byte.
struct SizeFields {
  const char *first = nullptr, *other = nullptr, *out = nullptr;
};

static const SizeFields &size_fields(Op op) {
  static const std::vector<SizeFields> table = [] {
    std::vector<SizeFields> made;
    for (const OpFields &row : op_fields()) {
      SizeFields found;
      for (const Field &f : row.fields) {
        const std::string name = f.name;
        if (name == "x_bytes") found.first = found.other = f.name;
        if (name == "a_bytes") found.first = f.name;
        if (name == "b_bytes") found.other = f.name;
        if (name == "out_bytes") found.out = f.name;
      }
      made.push_back(found);
    }
    return made;
  }();
  return table[size_t(op)];
}

static int tensor_bytes(const Layer &layer, int read) {
  const SizeFields &fields = size_fields(layer.op);
  const char *field = read < 0 ? fields.out : read ? fields.other : fields.first;
  return field ? int(layer.get(field)) : 1;
}

int number_bytes(const Layer &layer, int read) {
  if (read < tensor_reads(layer)) return tensor_bytes(layer, read);
  if (is_mac(layer.op)) return read == 1 ? 1 : read == 2 ? 4 : 2;
  switch (layer.op) {
    case Op::avg_pool:
    case Op::wide_avg_pool:
    case Op::fx_layer_norm:
    case Op::layer_norm: return 4;
    case Op::attention:
    case Op::softmax: return 2;
    case Op::wide_lut: return 2 * int(layer.get("x_bytes"));
    case Op::fx_lut: return 4;
    case Op::fp16_linear: return read == 1 ? 2 : 4;
    default: return 1;
  }
}

static std::string named(const Layer &layer, const char *field) {
  return std::string(layer.name()) + "." + field + " is " + std::to_string(layer.get(field));
}

void check_int8(const Layer &layer, const char *field) {
  const int64_t v = layer.get(field);
  want(v >= -128 && v <= 127, named(layer, field) + ": want an int8");
}

void check_scale(const Layer &layer, const char *m, const char *f) {
  want(layer.get(m) >= 0, named(layer, m) + ": want at least 0");
  want(layer.get(f) >= 0 && layer.get(f) <= 31, named(layer, f) + ": want 0..31");
}

void check_limits(const Layer &layer) {
  check_int8(layer, "lo"), check_int8(layer, "hi");
  want(layer.get("lo") <= layer.get("hi"), named(layer, "lo") + ", more than hi");
}

void check_same_dims(const Layer &layer) {
  const bool same = layer.in.h == layer.out.h && layer.in.w == layer.out.w && layer.in.c == layer.out.c;
  want(same, std::string(layer.name()) + ": input and output have different dims");
}

void check_same_numbers(const Layer &layer) {
  const bool same = layer.in.h == layer.out.h && layer.in.w == layer.out.w &&
                    layer.in.c / layer.get("x_bytes") == layer.out.c / layer.get("out_bytes");
  want(same, std::string(layer.name()) + ": input and output have different dims");
}

void needs_same_numbers(const Layer &layer, const Box &bytes, int64_t, Box *of) {
  of[0] = in_bytes(in_numbers(layer, bytes), layer.get("x_bytes"));
}

void check_bytes(const Layer &layer, std::initializer_list<const char *> fields) {
  int64_t most = 0, out = 1;
  for (const char *field : fields) {
    out = layer.get(field), most = std::max(most, out);
    want(out == 1 || out == 2, named(layer, field) + ": want 1 or 2");
  }
  want(most == 2, std::string(layer.name()) + ": no operand has numbers of two bytes");
  want(layer.out.c % out == 0 && layer.in.c % number_bytes(layer, 0) == 0,
       std::string(layer.name()) + ": channels do not divide into numbers of two bytes");
}

void check_zero_point(const Layer &layer, const char *field, const char *bytes) {
  check_int8(layer, field);
  want(layer.get(bytes) == 1 || layer.get(field) == 0, named(layer, field) + ": want 0, the numbers have more bytes");
}

void check_wide_limits(const Layer &layer) {
  const int64_t most = layer.get("out_bytes") == 1 ? 127 : 32767;
  for (const char *field : {"lo", "hi"})
    want(layer.get(field) >= -most - 1 && layer.get(field) <= most, named(layer, field) + ": not in the output's range");
  want(layer.get("lo") <= layer.get("hi"), named(layer, "lo") + ", more than hi");
}

Box in_numbers(const Layer &layer, const Box &tile) {
  const int64_t bytes = number_bytes(layer, -1);
  want(tile.c % bytes == 0 && tile.n % bytes == 0, "the tile ", tile, " cuts a number of two bytes");
  Box numbers = tile;
  return numbers.c /= bytes, numbers.n /= bytes, numbers;
}

Window window_of(const Layer &layer, int axis) {
  return {layer.get("kernel", axis), layer.get("stride", axis), layer.get("dilation", axis), layer.get("pad", axis)};
}

void check_window(const Layer &layer) {
  for (int axis = 0; axis < 2; ++axis) {
    const Window w = window_of(layer, axis);
    const bool positive = w.kernel >= 1 && w.stride >= 1 && w.dilation >= 1;
    want(positive, std::string(layer.name()) + ": kernel, stride and dilation must be at least 1");
    const int64_t in = axis ? layer.in.w : layer.in.h, out = axis ? layer.out.w : layer.out.h;
    // Kernels count positions in 32 bits.
    const int64_t reach = std::max(in, out) * w.stride + w.kernel * w.dilation + std::abs(w.pad);
    want(reach < int64_t(1) << 30, std::string(layer.name()) + ": the window reaches beyond 2^30 positions");
  }
}

Interval looked_at(const Window &w, int64_t at, int64_t count, int64_t size) {
  const int64_t first = std::max<int64_t>(at * w.stride - w.pad, 0);
  const int64_t end = std::min((at + count - 1) * w.stride - w.pad + (w.kernel - 1) * w.dilation + 1, size);
  return {first, end - first};
}

Interval taps_inside(const Window &w, int64_t at, int64_t size) {
  const int64_t start = at * w.stride - w.pad;
  const int64_t first = start < 0 ? ceil_div(-start, w.dilation) : 0;
  const int64_t end = std::min(w.kernel, start < size ? ceil_div(size - start, w.dilation) : 0);
  return {first, std::max<int64_t>(end - first, 0)};
}

template <int bytes>
static void copy_pixels(const int8_t *x, int64_t x_pixel, int8_t *y, int64_t y_pixel, int64_t w) {
  for (; w > 0; --w, x += x_pixel, y += y_pixel) std::memcpy(y, x, bytes);
}

void copy_box(const int8_t *x, int64_t x_row, int64_t x_pixel, int8_t *y, int64_t y_row, int64_t y_pixel, int64_t h,
              int64_t w, int64_t n) {
  if (w == 1 || (x_pixel == n && y_pixel == n)) {
    n *= w, w = 1;
    if (h == 1 || (x_row == n && y_row == n)) n *= h, h = 1;
  }
  for (; h > 0; --h, x += x_row, y += y_row) {
    if (w == 1) std::memcpy(y, x, size_t(n));
    // a size the compiler knows is a few moves instead of a call for each pixel
    else if (n == 1) copy_pixels<1>(x, x_pixel, y, y_pixel, w);
    else if (n == 2) copy_pixels<2>(x, x_pixel, y, y_pixel, w);
    else if (n == 4) copy_pixels<4>(x, x_pixel, y, y_pixel, w);
    else if (n == 8) copy_pixels<8>(x, x_pixel, y, y_pixel, w);
    else if (n == 16) copy_pixels<16>(x, x_pixel, y, y_pixel, w);
    else if (n == 32) copy_pixels<32>(x, x_pixel, y, y_pixel, w);
    else if (n == 64) copy_pixels<64>(x, x_pixel, y, y_pixel, w);
    else if (n == 128) copy_pixels<128>(x, x_pixel, y, y_pixel, w);
    else
      for (int64_t i = 0; i < w; ++i) std::memcpy(y + i * y_pixel, x + i * x_pixel, size_t(n));
  }
}

}  // namespace axtool
