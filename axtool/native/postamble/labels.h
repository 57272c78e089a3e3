// The class of every pixel of a map that is made larger: bilinear interpolation and argmax, without the map between.
//
// Half-pixel interpolation by a whole factor f weighs bytes with multiples of 1 / 2f, so the score of a class at a pixel
// is a whole number over 4 f^2: it is computed exactly, and every way gives the same labels. Of equal scores the first
// class wins.
#pragma once
#include <cstdint>

#include "postamble/bytes.h"

namespace axtool::postamble {

struct LabelLoops {
  const char *name;
  // Of labels (h * factor, w * factor) the rows of bands first .. last: band b lies between the centres of the rows b - 1
  // and b of the map, so there are h + 1. factor * factor * 512 fits 31 bits, and there are at most 32767 channels.
  void (*labels)(const Pixels &, int64_t factor, int64_t first, int64_t last, int64_t *labels);
};

extern const LabelLoops labels_portable, labels_avx2, labels_avx512, labels_neon;

}  // namespace axtool::postamble
