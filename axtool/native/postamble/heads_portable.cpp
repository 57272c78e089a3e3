// The loops of heads.h in plain C++: everything from the tables.
#include <algorithm>
#include <cstring>

#include "postamble/heads.h"

namespace axtool::postamble {
namespace portable {

struct Wide {
  static constexpr int64_t kWidth = 1;
  struct Looked {
    static constexpr bool kSoftmax = false;
    explicit Looked(const Strip &strip) : table(strip.table.data()) {}
    void store(const uint8_t *q, float *out) const { *out = table[*q]; }
    const float *table;
  };
  using Affine = Looked;
  using Sigmoid = Looked;
  using Tanh = Looked;
  using Exponential = Looked;
};
#include "postamble/heads.inc"

}  // namespace portable

const HeadLoops heads_portable = {"scalar", portable::row};

}  // namespace axtool::postamble
