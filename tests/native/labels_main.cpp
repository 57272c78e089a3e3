// labels_portable against LOOPS, another build of the same loops: the same labels of random maps, or exit code 1.
#include <cstdio>
#include <random>
#include <vector>

#include "postamble/labels.h"

using namespace axtool::postamble;

static std::mt19937 dice(1);
static int any(int low, int high) { return low + int(dice() % unsigned(high - low + 1)); }

int main() {
  for (int round = 0; round < 150; ++round) {
    Pixels x{};
    x.h = any(1, 3), x.w = any(1, 70), x.c = any(0, 9) ? any(1, 80) : any(200, 300);
    x.pixel = x.c + any(0, 3), x.row = x.w * x.pixel + any(0, 9);
    const int64_t factor = any(0, 2) ? any(1, 8) : any(0, 1) ? 1 : any(9, 12);  // numbers of 16 bits, bytes, of 32 bits
    const int least = any(0, 2) ? -128 : 125;                   // many equal scores, of which the first class wins
    std::vector<int8_t> bytes(size_t(x.h * x.row));
    for (int8_t &q : bytes) q = int8_t(any(least, 127));
    x.data = bytes.data();
    std::vector<int64_t> wanted(size_t(x.h * x.w * factor * factor), -1), found = wanted;
    labels_portable.labels(x, factor, 0, x.h + 1, wanted.data());
    const int64_t parted = any(0, int(x.h) + 1);  // in two parts, one of which may be empty
    LOOPS.labels(x, factor, parted, x.h + 1, found.data());
    LOOPS.labels(x, factor, 0, parted, found.data());
    if (wanted != found) {
      std::printf("%s: other labels of %d x %d x %d, factor %d\n", LOOPS.name, int(x.h), int(x.w), int(x.c),
                  int(factor));
      return 1;
    }
  }
  std::printf("%s: the same bits\n", LOOPS.name);
}
