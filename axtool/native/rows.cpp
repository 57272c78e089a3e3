#include "rows.h"

#include <cstring>

namespace axtool {

// The fields of an op and those of its form on numbers of one or two bytes.
static std::vector<Field> wide(std::vector<Field> fields, std::initializer_list<const char *> bytes) {
  for (const char *name : bytes) fields.push_back({name, 1});
  return fields;
}

const std::vector<OpFields> &op_fields() {
  static const std::vector<Field> mac = {{"kernel", 2}, {"stride", 2}, {"dilation", 2}, {"pad", 2}, {"group", 1},
                                         {"x_zp", 1},   {"out_zp", 1}, {"lo", 1},       {"hi", 1},  {"act", 1}};
  static const std::vector<Field> add = {{"a", 3},      {"b", 3},   {"zp_a", 1}, {"m_a", 1}, {"f_a", 1}, {"zp_b", 1}, {"m_b", 1},
                                         {"f_b", 1}, {"out_zp", 1}, {"lo", 1},  {"hi", 1},  {"sub", 1}};
  static const std::vector<Field> mul = {{"a", 3}, {"b", 3},      {"zp_a", 1}, {"zp_b", 1}, {"m", 1},
                                         {"f", 1}, {"out_zp", 1}, {"lo", 1},   {"hi", 1}};
  static const std::vector<Field> requantize = {{"zp", 1}, {"m", 1}, {"f", 1}, {"out_zp", 1}, {"lo", 1}, {"hi", 1}};
  static const std::vector<Field> avg_pool = {{"kernel", 2},  {"stride", 2},      {"dilation", 2}, {"pad", 2},
                                              {"pad_end", 2}, {"include_pad", 1}, {"zp", 1},       {"out_zp", 1},
                                              {"lo", 1},      {"hi", 1}};
  static const std::vector<OpFields> table = {
      {"conv", mac},
      {"depthwise", mac},
      {"conv_transpose", mac},
      {"add", add},
      {"mul", mul},
      {"concat", {{"axis", 1}, {"out_zp", 1}, {"parts", -1}}},
      {"requantize", requantize},
      {"slice", {{"start", 3}, {"step", 3}}},
      {"pad", {{"before", 3}, {"mode", 1}, {"value", 1}}},
      {"max_pool", {{"kernel", 2}, {"stride", 2}, {"dilation", 2}, {"pad", 2}}},
      {"avg_pool", avg_pool},
      {"resize_nearest", {{"factor", 2}}},
      {"resize_linear", {{"factor", 2}, {"mode", 1}, {"zp", 1}, {"m", 1}, {"f", 1}, {"out_zp", 1}}},
      {"lut", {{"per_channel", 1}}},
      {"transpose", {{"perm", 3}}},
      {"reshape", {}},
      {"depth_to_space", {{"block", 1}, {"mode", 1}}},
      {"space_to_depth", {{"block", 1}}},
      {"wide_conv", wide(mac, {"x_bytes", "out_bytes"})},
      {"wide_depthwise", wide(mac, {"x_bytes", "out_bytes"})},
      {"wide_add", wide(add, {"a_bytes", "b_bytes", "out_bytes"})},
      {"wide_mul", wide(mul, {"a_bytes", "b_bytes", "out_bytes"})},
      {"wide_requantize", wide(requantize, {"x_bytes", "out_bytes"})},
      {"wide_lut", {{"lo", 1}, {"hi", 1}, {"x_bytes", 1}, {"out_bytes", 1}}},
      {"wide_avg_pool", wide(avg_pool, {"x_bytes", "out_bytes"})},
      {"matmul", {{"b", 3}, {"trans_b", 1}, {"zp_a", 1}, {"zp_b", 1}, {"m", 1}, {"f", 1}, {"out_zp", 1}, {"lo", 1}, {"hi", 1}}},
      {"attention",
       wide({}, {"heads", "keys", "mask", "zp_q", "zp_k", "m_s", "f_s", "zp_s", "zp_m", "m_m", "f_m", "zp_v", "m", "f",
                 "out_zp", "form"})},
      {"softmax", {{"m", 1}, {"f", 1}, {"out_zp", 1}, {"lo", 1}, {"hi", 1}, {"form", 1}}},
      {"layer_norm",
       {{"f", 1}, {"out_zp", 1}, {"lo", 1}, {"hi", 1}, {"eps_m", 1}, {"eps_e", 1}, {"form", 1}}},
      {"arg_max", {{"flat", 1}, {"last", 1}, {"x_bytes", 1}, {"out_bytes", 1}}},
      {"fx_softmax", {{"f_x", 1}, {"f", 1}, {"form", 1}, {"x_bytes", 1}, {"out_bytes", 1}}},
      {"fx_layer_norm",
       {{"shift", 1}, {"eps_m", 1}, {"eps_e", 1}, {"form", 1}, {"x_bytes", 1}, {"out_bytes", 1}}},
      {"fx_add",
       {{"a", 3}, {"b", 3}, {"shift_a", 1}, {"shift_b", 1}, {"lo", 1}, {"hi", 1}, {"sub", 1}, {"a_bytes", 1}, {"b_bytes", 1},
        {"out_bytes", 1}}},
      {"fx_mul",
       {{"a", 3}, {"b", 3}, {"shift", 1}, {"lo", 1}, {"hi", 1}, {"a_bytes", 1}, {"b_bytes", 1}, {"out_bytes", 1}}},
      {"fx_requantize", {{"shift", 1}, {"lo", 1}, {"hi", 1}, {"x_bytes", 1}, {"out_bytes", 1}}},
      {"fx_quantize",
       {{"inverse", 1}, {"shift", 1}, {"rest", 1}, {"out_zp", 1}, {"lo", 1}, {"hi", 1}, {"x_bytes", 1}, {"out_bytes", 1}}},
      {"fx_dequantize", {{"zp", 1}, {"scale", 1}, {"shift", 1}, {"x_bytes", 1}, {"out_bytes", 1}}},
      {"fx_lut", {{"first", 1}, {"interval", 1}, {"x_bytes", 1}, {"out_bytes", 1}}},
      {"fx_from_fp16", {{"f", 1}, {"x_bytes", 1}, {"out_bytes", 1}}},
      {"fp16_from_fx", {{"f", 1}, {"x_bytes", 1}, {"out_bytes", 1}}},
      {"fp16_linear",
       {{"zp", 1}, {"scale", 1}, {"shift", 1}, {"f_x", 1}, {"f", 1}, {"relu", 1}, {"bias_rows", 1}, {"x_bytes", 1},
        {"out_bytes", 1}}},
      {"fp16_matmul", {{"b", 3}, {"trans_b", 1}, {"f", 1}, {"a_bytes", 1}, {"b_bytes", 1}, {"out_bytes", 1}}},
      {"fp16_attention",
       wide({}, {"heads", "keys", "mask", "scale", "f_s", "f", "form", "x_bytes", "out_bytes"})},
      {"custom", {{"id", 1}, {"whole", 1}, {"count", 1}, {"boxes", -1}}},
  };
  return table;
}

int64_t Layer::get(const char *field, int index) const {
  size_t at = 0;
  for (const Field &f : op_fields()[size_t(op)].fields) {
    if (*f.name == *field && !std::strcmp(f.name, field)) return values.at(at + size_t(index));
    at += size_t(f.width);
  }
  throw std::logic_error(std::string(name()) + " has no field " + field);
}

Layer decode_layer(const int64_t *row, int64_t length) {
  want(length >= 7 && row[0] >= 0 && row[0] < int64_t(op_fields().size()), "not a layer row");
  Layer layer{Op(row[0]), {row[1], row[2], row[3]}, {row[4], row[5], row[6]}, {row + 7, row + length}, nullptr};
  for (int i = 1; i < 7; ++i) want(row[i] >= 1 && row[i] < kMaxExtent, "dims must be 1..", kMaxExtent - 1);
  int64_t fixed = 0;
  bool rest = false;
  for (const Field &f : op_fields()[size_t(layer.op)].fields) f.width < 0 ? void(rest = true) : void(fixed += f.width);
  const int64_t have = length - 7;
  want(rest ? have >= fixed : have == fixed, layer.name(), ": ", have, " attribute integers where ", fixed,
       " belong");
  for (int64_t v : layer.values)
    want(v >= -(int64_t(1) << 31) && v < (int64_t(1) << 31), "attribute ", v, " is no 32-bit integer");
  return layer;
}

static Box decode_box(const int64_t *v, const char *what) {
  const Box box{v[0], v[1], v[2], v[3], v[4], v[5]};
  const bool ok = box.y >= 0 && box.y < kMaxExtent && box.x >= 0 && box.x < kMaxExtent && box.c >= 0 &&
                  box.c < kMaxBytes && box.h >= 1 && box.h < kMaxExtent && box.w >= 1 && box.w < kMaxExtent &&
                  box.n >= 1 && box.n < kMaxBytes;
  if (!ok) throw Refusal(std::string(what) + " is not a box with at least one element");
  return box;
}

Command decode_command(const int64_t *row, int64_t length) {
  want(length >= 12 && row[0] >= 0 && row[0] < 4 && row[1] >= 0 && row[1] < 5, "not a command row");
  const int64_t reads = row[4], writes = row[5];
  want(reads >= 0 && writes >= 0 && reads <= length && writes <= length && length == 12 + 10 * (reads + writes),
       "a command with ", reads, " reads and ", writes, " writes has ", length, " integers");
  Command command{Kind(row[0]), row[2], row[3], decode_box(row + 6, "the tile"), {}, {}};
  for (int64_t i = 0; i < reads + writes; ++i) {
    const int64_t *v = row + 12 + 10 * i;
    want(v[0] == 0 || v[0] == 1, "memory ", v[0], " does not exist");
    View view{int(v[0]), v[1], decode_box(v + 2, "a view"), v[8], v[9]};
    want(view.offset >= 0 && view.offset < kMaxBytes && view.row >= 0 && view.row < kMaxBytes && view.pixel >= 0 &&
             view.pixel < kMaxBytes,
         "a view has a negative or absurd offset or stride");
    (i < reads ? command.reads : command.writes).push_back(view);
  }
  return command;
}

}  // namespace axtool
