// AVX2: which quads of the weights make a step of mac_avx2_packed.h, for each 8 output channels.
#pragma once
#include <cstdlib>

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
  static constexpr int kWays = 3;

  struct Wide {
    __m256i first, second;
    int quad;
  };

  int8_t *weights;    // where the next step goes
  int32_t *offsets;
  int quads, count, wides;  // of the chunk, of `all`, of `wide`
  Avx2Quad all[2 * Avx2Packed::kChunk];
  Wide wide[Avx2Packed::kChunk];
  int order[2 * Avx2Packed::kChunk];

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
    for (int way = 0; way < kWays; ++way) {
      q.w[way] = way ? _mm256_shuffle_epi8(w, Avx2Bytes::order(way)) : w;
      q.load[way] = load_of(q.w[way]);
      q.most = mac_min(q.most, most_of(q.load[way]));
    }
  }

  // Quads of the chunk that are safe in some way, the fullest first. The others are wide, or where a weight rules that
  // out two, the second of which has the second weight of each pair that is too much.
  void list(const int8_t *stored, int32_t *excess) {
    count = wides = 0;
    for (int quad = 0; quad < quads; ++quad) {
      const __m256i w = _mm256_loadu_si256((const __m256i *)(stored + int64_t(quad) * 64));
      add(quad, w);
      if (all[count - 1].most <= 128) continue;
      --count;
      if (add_wide(quad, w, excess)) continue;
      const __m256i second = _mm256_and_si256(w, _mm256_slli_epi16(too_much(w), 8));
      add(quad, _mm256_sub_epi8(w, second)), add(quad, second);
    }
    int places[257] = {};
    for (int i = 0; i < count; ++i) ++places[255 - all[i].most + 1];
    for (int i = 0; i < 256; ++i) places[i + 1] += places[i];
    for (int i = 0; i < count; ++i) order[places[255 - all[i].most]++] = i;
  }

  // Pairs whose weights of one sign add up to more than 128, as -1.
  static __m256i too_much(__m256i w) {
    const __m256i zero = _mm256_setzero_si256(), one = _mm256_set1_epi8(1);
    const __m256i up = _mm256_maddubs_epi16(one, _mm256_max_epi8(w, zero));
    const __m256i down = _mm256_sub_epi16(zero, _mm256_maddubs_epi16(one, _mm256_min_epi8(w, zero)));
    return _mm256_cmpgt_epi16(_mm256_max_epi16(up, down), _mm256_set1_epi16(128));
  }

  // The factors of a step on int16, unless a first weight of a pair is -128.
  bool add_wide(int quad, __m256i w, int32_t *excess) {
    const __m256i first = _mm256_srai_epi16(_mm256_slli_epi16(w, 8), 8), second = _mm256_srai_epi16(w, 8);
    const __m256i least = _mm256_cmpeq_epi16(first, _mm256_set1_epi16(-128));
    if (!_mm256_testz_si256(least, least)) return false;
    wide[wides++] = {first, _mm256_sub_epi16(second, _mm256_slli_epi16(first, 8)), quad};
    // those of the second weights stand for x, not for x + 128
    const __m256i lacking = _mm256_slli_epi32(_mm256_madd_epi16(second, _mm256_set1_epi16(1)), 7);
    _mm256_storeu_si256((__m256i *)excess, _mm256_add_epi32(_mm256_loadu_si256((const __m256i *)excess), lacking));
    return true;
  }

  void put(__m256i w) {
    _mm256_store_si256((__m256i *)weights, w);
    weights += 32;
  }
  void put(Avx2Quad &q, int way) {
    put(q.w[way]);
    *offsets++ = (way * quads + q.quad) * Avx2Packed::kStride;
    q.used = true;
  }

  bool put_together(Avx2Quad &a, Avx2Quad &b) {
    for (int i = 0; i < kWays; ++i)
      for (int j = 0; j < kWays; ++j)
        if (fits(_mm256_adds_epu8(a.load[i], b.load[j]))) {
          put(a, i), put(b, j);
          return true;
        }
    return false;
  }

  // The fullest with the next fullest that goes with it, which leaves the emptier ones for those that find it harder.
  MacFrozenSteps freeze(const int8_t *stored, int chunk_quads, int32_t *excess) {
    quads = chunk_quads;
    list(stored, excess);
    MacFrozenSteps steps = {weights, offsets, 0, 0, wides};
    int last = count - 1;
    for (int i = 0; i < count; ++i) {
      Avx2Quad &a = all[order[i]];
      if (a.used) continue;
      while (last > i && all[order[last]].used) --last;
      for (int j = i + 1; j <= last; ++j)
        if (!all[order[j]].used && put_together(a, all[order[j]])) {
          ++steps.doubles;
          break;
        }
    }
    for (int i = 0; i < count; ++i) {
      Avx2Quad &q = all[order[i]];
      if (q.used) continue;
      int way = 0;
      while (!fits(q.load[way])) ++way;
      put(q, way), ++steps.singles;
    }
    for (int i = 0; i < wides; ++i) {
      put(wide[i].first), put(wide[i].second);
      *offsets++ = (Avx2Packed::kMixed * quads + wide[i].quad) * Avx2Packed::kStride;
    }
    return steps;
  }
};

inline MacFrozen *avx2_freeze(const MacTask &t) {
  const int quads = Avx2Packed::quads_of(t), chunks = Avx2Packed::chunks_of(quads), halves = 2 * mac_blocks(t.on);
  int8_t *rest;
  // at the most every quad is two
  const size_t weight_room = size_t(halves) * quads * 64, offset_room = size_t(halves) * quads * 8;
  const size_t excess_room = size_t(halves) * 32;
  MacFrozen *frozen = mac_new_frozen(t.oc, halves * chunks, weight_room + offset_room + excess_room, &rest);
  int32_t *offsets = reinterpret_cast<int32_t *>(rest + weight_room);
  int32_t *excess = reinterpret_cast<int32_t *>(rest + weight_room + offset_room);
  memset(excess, 0, excess_room);
  Avx2Freezer *freezer = static_cast<Avx2Freezer *>(aligned_alloc(64, (sizeof(Avx2Freezer) + 63) / 64 * 64));
  freezer->weights = rest, freezer->offsets = offsets;
  for (int half = 0; half < halves; ++half)
    for (int chunk = 0; chunk < chunks; ++chunk) {
      const int first = Avx2Packed::first_quad(quads, chunk), end = Avx2Packed::first_quad(quads, chunk + 1);
      const int8_t *stored = t.w + (int64_t(half / 2) * quads + first) * 64 + half % 2 * 32;
      frozen->steps[half * chunks + chunk] = freezer->freeze(stored, end - first, excess + 8 * half);
    }
  frozen->excess = excess;
  frozen->bytes = size_t(freezer->weights - rest) + size_t(freezer->offsets - offsets) * 4 + excess_room;
  free(freezer);
  return frozen;
}
}  // namespace
}  // namespace axtool
