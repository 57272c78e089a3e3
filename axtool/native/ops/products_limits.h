// What matmul and attention ask of their operands' sizes; the same numbers as in axtool/ops/legal.py.
#pragma once
#include <cstdint>

namespace axtool {
constexpr int64_t kMostDepth = 1 << 15;            // products of one sum: it stays within int32
constexpr int64_t kMostKeys = 1 << 18;             // exponentials of one sum: within int32
constexpr int64_t kMostOperand = int64_t(1) << 28;  // numbers of a matrix that is packed
}  // namespace axtool
