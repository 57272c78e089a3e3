// AVX-512 VBMI: act 1 without a look-up for each byte.
//
// Of an int16 argument, few lower bytes change the result while the upper byte stays: in tables of the usual functions
// up to 3 do, each by 1. The result is then base[upper byte], and 1 more or less for each threshold of that upper byte
// which the lower byte is above. A table of 256 bytes is four registers: vpermi2b reads 64 entries at once.
#pragma once
#include <cstring>

#include "mac_scalar.h"

namespace axtool {
namespace {

#ifdef AXTOOL_EMULATE_AVX512
#define AVX512_VBMI
inline bool avx512_has_vbmi() { return true; }
#else
#define AVX512_VBMI __attribute__((target("avx512vbmi")))
inline bool avx512_has_vbmi() { return __builtin_cpu_supports("avx512vbmi"); }
#endif

struct Avx512Steps {
  static constexpr int kMost = 4;

  alignas(64) int8_t base[256];       // by the upper byte
  uint8_t above[kMost][256];          // thresholds; 255, which no byte is above, where there are fewer
  int count;                          // the most of an upper byte
  int turn;                           // results fall while the signed upper byte is under this, then they rise

  // Takes the steps from all results, a byte for each argument; false where they are none of this form. A byte past the
  // results is read.
  bool find(const int8_t *by_value) {
    memset(above, 255, sizeof above);
    count = 0, turn = -128;
    bool rises = false;
    for (int upper = -128; upper < 128; ++upper) {
      const int8_t *p = by_value + uint8_t(upper) * 256;
      base[uint8_t(upper)] = p[0];
      int n = 0;
      for (int i = 0; i < 256; i += 64) {
        uint64_t changes = _mm512_cmpneq_epi8_mask(_mm512_loadu_si512(p + i), _mm512_loadu_si512(p + i + 1));
        if (i == 192) changes &= ~(uint64_t(1) << 63);  // to the next upper byte
        for (; changes; changes &= changes - 1, ++n) {
          const int lower = i + __builtin_ctzll(changes), change = p[lower + 1] - p[lower];
          if (n == kMost || (change != 1 && change != -1)) return false;
          if (change < 0 ? rises : turn == upper + 1) return false;
          rises |= change > 0;
          if (change < 0) turn = upper + 1;
          above[n][uint8_t(upper)] = uint8_t(lower);
        }
      }
      count = mac_max(count, n);
    }
    return turn < 128;
  }

  // Entry u[i] of a table of 256 bytes; `negative`: the upper bits of u.
  static AVX512_VBMI inline __m512i look_up(const void *table, __m512i u, __mmask64 negative) {
    const char *t = static_cast<const char *>(table);
    const __m512i a = _mm512_permutex2var_epi8(_mm512_loadu_si512(t), u, _mm512_loadu_si512(t + 64));
    const __m512i b = _mm512_permutex2var_epi8(_mm512_loadu_si512(t + 128), u, _mm512_loadu_si512(t + 192));
    return _mm512_mask_blend_epi8(negative, a, b);
  }

  // The results of 64 arguments, given as their lower and upper bytes.
  AVX512_VBMI inline __m512i results(__m512i lower, __m512i upper) const {
    const __mmask64 negative = _mm512_movepi8_mask(upper);
    const __mmask64 falls = _mm512_cmplt_epi8_mask(upper, _mm512_set1_epi8(int8_t(turn)));
    const __m512i change = _mm512_mask_blend_epi8(falls, _mm512_set1_epi8(1), _mm512_set1_epi8(-1));
    __m512i q = look_up(base, upper, negative);
    for (int i = 0; i < count; ++i) {
      const __mmask64 passed = _mm512_cmplt_epu8_mask(look_up(above[i], upper, negative), lower);
      q = _mm512_mask_add_epi8(q, passed, q, change);
    }
    return q;
  }
};
}  // namespace
}  // namespace axtool
