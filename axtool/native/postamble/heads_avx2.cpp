// The loops of heads.h for AVX2. Empty where the compiler is not asked for it.
#include "postamble/heads.h"

#if defined(__AVX2__)
#include <immintrin.h>

#include <algorithm>
#include <cstring>

namespace axtool::postamble {
namespace avx2 {

#include "postamble/lanes_x86.inc"
using Lanes = Lanes256;
#include "postamble/heads_wide.inc"

struct Wide : Functions {
  struct Exponential : Functions::Exponential {
    static constexpr bool kSoftmax = true;
    using Functions::Exponential::Exponential;

    // over_their_sum with the lanes in a register; the values of a row of less than 88 are never stored before they are
    // divided.
    void softmax(const float *table, const uint8_t *q, int64_t count, float *out) const {
      switch (count / 8) {
        case 1: return held<1>(table, q, count, out);
        case 2: return held<2>(table, q, count, out);
        case 3: return held<3>(table, q, count, out);
        case 4: return held<4>(table, q, count, out);
        case 5: return held<5>(table, q, count, out);
        case 6: return held<6>(table, q, count, out);
        case 7: return held<7>(table, q, count, out);
        case 8: return held<8>(table, q, count, out);
        case 9: return held<9>(table, q, count, out);
        case 10: return held<10>(table, q, count, out);
        default: break;
      }
      const int64_t full = count / 8 * 8;
      __m256 lanes = _mm256_setzero_ps();
      for (int64_t i = 0; i < full; i += 8) {
        const __m256 e = of(q + i);
        _mm256_storeu_ps(out + i, e);
        lanes = _mm256_add_ps(lanes, e);
      }
      const __m256 end = last(table, q, count, lanes), share = share_of(lanes);
      for (int64_t i = 0; i < full; i += 8) _mm256_storeu_ps(out + i, _mm256_mul_ps(_mm256_loadu_ps(out + i), share));
      store_last(_mm256_mul_ps(end, share), count, out);
    }
    template <int kFull>
    void held(const float *table, const uint8_t *q, int64_t count, float *out) const {
      __m256 e[kFull];
#pragma GCC unroll 10
      for (int i = 0; i < kFull; ++i) e[i] = of(q + 8 * i);
      __m256 lanes = e[0];
#pragma GCC unroll 10
      for (int i = 1; i < kFull; ++i) lanes = _mm256_add_ps(lanes, e[i]);
      const __m256 end = last(table, q, count, lanes), share = share_of(lanes);
#pragma GCC unroll 10
      for (int i = 0; i < kFull; ++i) {
        if (i % 2 == 0) __builtin_prefetch(out + 8 * i + kAhead, 1);
        _mm256_storeu_ps(out + 8 * i, _mm256_mul_ps(e[i], share));
      }
      store_last(_mm256_mul_ps(end, share), count, out);
    }
    // The values that no eight hold, added to the lanes: one alone comes from the table; more are the last of eight
    // that overlap those before, and are turned to the first lanes.
    __m256 last(const float *table, const uint8_t *q, int64_t count, __m256 &lanes) const {
      const int64_t rest = count % 8;
      if (rest == 0) return lanes;
      if (rest == 1) {
        const __m256 one = _mm256_zextps128_ps256(_mm_load_ss(table + q[count - 1]));
        lanes = _mm256_add_ps(lanes, one);
        return one;
      }
      const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
      const __m256i from = _mm256_add_epi32(lane, _mm256_set1_epi32(int(8 - rest)));
      const __m256i fresh = _mm256_cmpgt_epi32(_mm256_set1_epi32(int(rest)), lane);
      const __m256 end = of(q + count - 8);
      lanes = _mm256_add_ps(lanes, _mm256_and_ps(_mm256_permutevar8x32_ps(end, from), _mm256_castsi256_ps(fresh)));
      return end;
    }
    static void store_last(__m256 end, int64_t count, float *out) {
      if (count % 8 == 1)
        _mm_store_ss(out + count - 1, _mm256_castps256_ps128(end));
      else if (count % 8)
        _mm256_storeu_ps(out + count - 8, end);
    }
    static __m256 share_of(__m256 lanes) {
      const __m256 pairs = _mm256_hadd_ps(lanes, lanes), fours = _mm256_hadd_ps(pairs, pairs);
      const __m128 sum = _mm_add_ss(_mm256_castps256_ps128(fours), _mm256_extractf128_ps(fours, 1));
      return _mm256_broadcastss_ps(_mm_div_ss(_mm_set_ss(1), sum));
    }
  };
};
#include "postamble/heads.inc"

}  // namespace avx2

const HeadLoops heads_avx2 = {"avx2", avx2::row};

}  // namespace axtool::postamble
#endif
