// Plain loops, the packing, and which variant runs.
#include "products_loops.h"
#include "products_powers.h"

namespace axtool {
namespace {

struct PortableShorts {
  static constexpr int kRows = 4, kVectors = 1;
  struct Sum { uint32_t of[kPanel]; };  // unsigned: numbers that no layer makes wrap as they do in registers
  using Right = const int16_t *;
  static Sum zero() { return {}; }
  static Right load(const int16_t *b, int) { return b; }
  static const int16_t *spread(const int16_t *a) { return a; }
  static Sum add(Sum sum, const int16_t *a, Right b) {
    for (int64_t n = 0; n < kPanel; ++n)
      sum.of[n] += uint32_t(int32_t(a[0]) * b[2 * n]) + uint32_t(int32_t(a[1]) * b[2 * n + 1]);
    return sum;
  }
  static void store(int32_t *y, int, const Sum &sum) { std::memcpy(y, sum.of, sizeof sum.of); }
};

struct PortableFloats {
  static constexpr int kRows = 4, kVectors = 1;
  struct Sum { float of[kPanel]; };
  using Right = const float *;
  static Sum zero() { return {}; }
  static Right load(const float *b, int) { return b; }
  static float spread(const float *a) { return *a; }
  static Sum add(Sum sum, float a, Right b) {
    for (int64_t n = 0; n < kPanel; ++n) sum.of[n] += a * b[n];
    return sum;
  }
  static void store(float *y, int, const Sum &sum) { std::memcpy(y, sum.of, sizeof sum.of); }
};

}  // namespace

const Products products_portable = {all_shorts<PortableShorts>, all_floats<PortableFloats>, row_exponentials<PortableShorts>,
                                widen_halves, row_powers};

const Products &products_for(Isa isa) {
  switch (isa) {
    case Isa::avx512vnni: return products_avx512;
    case Isa::avx2:
    case Isa::avxvnni: return products_avx2;
    case Isa::neon_dot: return products_neon;
    default: return products_portable;
  }
}

void pack_shorts(const int8_t *b, int64_t k, int64_t n, int64_t k_step, int64_t n_step, int zero, int16_t *packed) {
  const int64_t pairs = pairs_of(k);
  for (int64_t first = 0; first < n; first += kPanel) {
    const int64_t columns = n - first < kPanel ? n - first : kPanel;
    for (int64_t pair = 0; pair < pairs; ++pair, packed += 2 * kPanel) {
      const int8_t *upper = b + 2 * pair * k_step + first * n_step;
      const bool both = 2 * pair + 1 < k;
      if (columns < kPanel || !both) std::memset(packed, 0, 2 * kPanel * sizeof(int16_t));
      for (int64_t j = 0; j < columns; ++j) {
        packed[2 * j] = int16_t(upper[j * n_step] - zero);
        if (both) packed[2 * j + 1] = int16_t(upper[k_step + j * n_step] - zero);
      }
    }
  }
}

}  // namespace axtool
