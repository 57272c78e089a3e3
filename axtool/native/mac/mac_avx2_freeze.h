// AVX2: which quads of the weights make a step of mac_avx2_packed.h, for each 8 output channels.
#pragma once
#include "mac_avx2_packed.h"

namespace axtool {
namespace {

// Weights of a quad for 8 channels in its three ways, and how much each pair has of both signs: 16 bytes the sums of
// its positive weights, 16 bytes those of its negative ones.
struct Avx2Quad {
  __m256i w[3], load[3];
  int quad, most;   // most: of the load of its best way
  bool used;
};

struct Avx2Freezer {
  static constexpr int kTries = 128;  // partners that are tried: more finds hardly more

  const int quads, ways;
  Avx2Quad *all;    // [2 * quads]
  int *order;       // [2 * quads]
  int count = 0;
  int8_t *weights;
  int32_t *offsets;

  static __m256i load_of(__m256i w) {
    const __m256i one = _mm256_set1_epi8(1), zero = _mm256_setzero_si256();
    const __m256i up = _mm256_maddubs_epi16(one, _mm256_max_epi8(w, zero));
    const __m256i down = _mm256_sub_epi16(zero, _mm256_maddubs_epi16(one, _mm256_min_epi8(w, zero)));
    return _mm256_packus_epi16(up, down);  // 256 becomes 255: too much all the same
  }
  static bool fits(__m256i load) {
    const __m256i over = _mm256_subs_epu8(load, _mm256_set1_epi8(int8_t(128)));
    return _mm256_testz_si256(over, over);
  }
  static int most_of(__m256i load) {
    uint8_t bytes[32];
    int most = 0;
    _mm256_storeu_si256((__m256i *)bytes, load);
    for (int i = 0; i < 32; ++i) most = mac_max(most, bytes[i]);
    return most;
  }

  void add(int quad, __m256i w) {
    Avx2Quad &q = all[count++];
    q.quad = quad, q.most = 255, q.used = false;
    for (int way = 0; way < ways; ++way) {
      q.w[way] = way ? _mm256_shuffle_epi8(w, Avx2Bytes::order(way)) : w;
      q.load[way] = load_of(q.w[way]);
      q.most = mac_min(q.most, most_of(q.load[way]));
    }
  }

  // All quads; of those safe in no way, a second one gets the second weight of each pair that is too much. Sorted, the
  // fullest first.
  void list(const int8_t *stored) {
    count = 0;
    for (int quad = 0; quad < quads; ++quad) {
      const __m256i w = _mm256_loadu_si256((const __m256i *)(stored + int64_t(quad) * 64));
      add(quad, w);
      if (all[count - 1].most <= 128) continue;
      const __m256i zero = _mm256_setzero_si256(), one = _mm256_set1_epi8(1), limit = _mm256_set1_epi16(128);
      const __m256i up = _mm256_maddubs_epi16(one, _mm256_max_epi8(w, zero));
      const __m256i down = _mm256_sub_epi16(zero, _mm256_maddubs_epi16(one, _mm256_min_epi8(w, zero)));
      const __m256i over = _mm256_cmpgt_epi16(_mm256_max_epi16(up, down), limit);
      const __m256i second = _mm256_and_si256(w, _mm256_slli_epi16(over, 8));
      --count;
      add(quad, _mm256_sub_epi8(w, second)), add(quad, second);
    }
    int places[257] = {};
    for (int i = 0; i < count; ++i) ++places[255 - all[i].most + 1];
    for (int i = 0; i < 256; ++i) places[i + 1] += places[i];
    for (int i = 0; i < count; ++i) order[places[255 - all[i].most]++] = i;
  }

  void put(Avx2Quad &q, int way) {
    _mm256_store_si256((__m256i *)weights, q.w[way]);
    weights += 32;
    *offsets++ = int32_t((int64_t(way) * quads + q.quad) * Avx2Packed::kStride);
    q.used = true;
  }

  bool put_together(Avx2Quad &a, Avx2Quad &b) {
    for (int i = 0; i < ways; ++i)
      for (int j = 0; j < ways; ++j)
        if (fits(_mm256_adds_epu8(a.load[i], b.load[j]))) {
          put(a, i), put(b, j);
          return true;
        }
    return false;
  }

  // The fullest with the next fullest that goes with it, which leaves the emptier ones for those that find it harder.
  void freeze(const int8_t *stored, MacFrozenHalf *half) {
    list(stored);
    *half = {weights, offsets, 0, 0};
    int last = count - 1;
    for (int i = 0; i < count; ++i) {
      Avx2Quad &a = all[order[i]];
      if (a.used) continue;
      while (last > i && all[order[last]].used) --last;
      for (int j = i + 1, tries = 0; j <= last && tries < kTries; ++j) {
        if (all[order[j]].used) continue;
        ++tries;
        if (put_together(a, all[order[j]])) {
          ++half->doubles;
          break;
        }
      }
    }
    for (int i = 0; i < count; ++i) {
      Avx2Quad &q = all[order[i]];
      if (q.used) continue;
      int way = 0;
      while (!fits(q.load[way])) ++way;
      put(q, way), ++half->singles;
    }
  }
};

inline MacFrozen *avx2_freeze(const MacTask &t) {
  const int quads = Avx2Packed::quads_of(t), halves = 2 * mac_blocks(t.on);
  int8_t *rest;
  // at the most every quad is two
  const size_t weight_room = size_t(halves) * quads * 64, offset_room = size_t(halves) * quads * 8;
  MacFrozen *frozen = mac_new_frozen(t.oc, halves, weight_room + offset_room, &rest);
  Avx2Quad *all = static_cast<Avx2Quad *>(aligned_alloc(64, (sizeof(Avx2Quad) * 2 * quads + 63) / 64 * 64));
  int *order = static_cast<int *>(malloc(sizeof(int) * 2 * quads));
  Avx2Freezer freezer{quads, Avx2Packed::ways_of(quads), all, order, 0, rest, reinterpret_cast<int32_t *>(rest + weight_room)};
  for (int half = 0; half < halves; ++half)
    freezer.freeze(t.w + int64_t(half / 2) * quads * 64 + half % 2 * 32, frozen->halves + half);
  frozen->bytes = size_t(freezer.weights - rest) + size_t(freezer.offsets - frozen->halves[0].offsets) * 4;
  free(order), free(all);
  return frozen;
}
}  // namespace
}  // namespace axtool
