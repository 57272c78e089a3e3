// The loops for AVX2. Empty where the compiler is not asked for it.
#include "norms.h"

#if defined(__AVX2__)
#include <immintrin.h>

#include <initializer_list>

namespace axtool {
namespace {

int32_t sum_of(__m256i v) {
  __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}

template <class Pick>
int32_t pick_of(__m256i v, int32_t from, const Pick &pick) {
  alignas(32) int8_t lanes[32];
  _mm256_store_si256((__m256i *)lanes, v);
  for (int8_t lane : lanes) from = pick(from, int32_t(lane));
  return from;
}

void moments(int64_t n, const int8_t *x, Moments *found) {
  const __m256i one = _mm256_set1_epi16(1);
  __m256i sum = _mm256_setzero_si256(), squares = sum;
  __m256i low = _mm256_set1_epi8(127), high = _mm256_set1_epi8(-128);
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    const __m256i v = _mm256_loadu_si256((const __m256i *)(x + i));
    low = _mm256_min_epi8(low, v), high = _mm256_max_epi8(high, v);
    for (__m128i half : {_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1)}) {
      const __m256i w = _mm256_cvtepi8_epi16(half);
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(w, one));
      squares = _mm256_add_epi32(squares, _mm256_madd_epi16(w, w));
    }
  }
  Moments m{0, 0, 127, -128};
  if (i) {
    m.sum = sum_of(sum), m.squares = sum_of(squares);
    m.low = pick_of(low, m.low, [](int32_t a, int32_t b) { return a < b ? a : b; });
    m.high = pick_of(high, m.high, [](int32_t a, int32_t b) { return a > b ? a : b; });
  }
  add_moments(n - i, x + i, &m);
  *found = m;
}

// Four numbers in the low halves of 64-bit lanes. Results below 2^32 are right in the low half however the upper bits
// were shifted.
__m256i four(const NormRow &r, const int8_t *x, const int32_t *pairs) {
  int32_t bytes;
  __builtin_memcpy(&bytes, x, 4);
  const __m256i v = _mm256_cvtepi8_epi64(_mm_cvtsi32_si128(bytes));
  __m256i d = _mm256_sub_epi32(_mm256_mul_epi32(v, _mm256_set1_epi64x(r.count)), _mm256_set1_epi64x(r.sum));
  d = _mm256_sll_epi32(d, _mm_cvtsi32_si128(r.up));
  __m256i t = _mm256_mul_epi32(d, _mm256_set1_epi64x(r.inverse));
  t = _mm256_srli_epi64(_mm256_add_epi64(t, _mm256_set1_epi64x(1 << 28)), 29);
  const __m256i pair = _mm256_loadu_si256((const __m256i *)pairs);
  __m256i y = _mm256_mul_epi32(t, pair);
  y = _mm256_srli_epi64(_mm256_add_epi64(y, _mm256_set1_epi64x(1 << 29)), 30);
  y = _mm256_add_epi32(y, _mm256_srli_epi64(pair, 32));
  y = _mm256_add_epi32(y, _mm256_set1_epi32((1 << r.f) >> 1));
  return _mm256_sra_epi32(y, _mm_cvtsi32_si128(r.f));
}

void normalize(const NormRow &r, int64_t n, const int8_t *x, const int32_t *pairs, int8_t *y) {
  // zp is added after the clamp to [lo - zp, hi - zp]: the sum stays a byte
  const __m256i low = _mm256_set1_epi32(r.lo - r.zp), high = _mm256_set1_epi32(r.hi - r.zp), zp = _mm256_set1_epi32(r.zp);
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256i a = four(r, x + i, pairs + 2 * i), b = four(r, x + i + 4, pairs + 2 * i + 8);
    __m256i q = _mm256_castps_si256(_mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), 0x88));
    q = _mm256_add_epi32(_mm256_min_epi32(_mm256_max_epi32(q, low), high), zp);
    // 32-bit lanes: x0 x1 x4 x5 | x2 x3 x6 x7
    const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(q), _mm256_extracti128_si256(q, 1));
    const __m128i bytes = _mm_packs_epi16(words, words);  // x0 x1 x4 x5 x2 x3 x6 x7
    const __m128i order = _mm_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, -1, -1, -1, -1, -1, -1, -1, -1);
    _mm_storel_epi64((__m128i *)(y + i), _mm_shuffle_epi8(bytes, order));
  }
  for (; i < n; ++i) y[i] = normalized(r, x[i], pairs + 2 * i);
}

void fx_moments(int64_t n, const int32_t *x, FxMoments *found) {
  __m256i sum = _mm256_setzero_si256(), low = _mm256_set1_epi32(INT32_MAX), high = _mm256_set1_epi32(INT32_MIN);
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256i v = _mm256_loadu_si256((const __m256i *)(x + i));
    low = _mm256_min_epi32(low, v), high = _mm256_max_epi32(high, v);
    sum = _mm256_add_epi64(sum, _mm256_cvtepi32_epi64(_mm256_castsi256_si128(v)));
    sum = _mm256_add_epi64(sum, _mm256_cvtepi32_epi64(_mm256_extracti128_si256(v, 1)));
  }
  alignas(32) int64_t sums[4];
  alignas(32) int32_t lows[8], highs[8];
  _mm256_store_si256((__m256i *)sums, sum);
  _mm256_store_si256((__m256i *)lows, low), _mm256_store_si256((__m256i *)highs, high);
  FxMoments m{sums[0] + sums[1] + sums[2] + sums[3], INT32_MAX, INT32_MIN};
  for (int32_t v : lows) m.low = v < m.low ? v : m.low;
  for (int32_t v : highs) m.high = v > m.high ? v : m.high;
  fx_add_moments(n - i, x + i, &m);
  *found = m;
}

// Deviations of four numbers, in the low halves of 64-bit lanes: what a shift by at most 32 puts there needs no sign.
__m256i fx_four(const FxNormRow &r, const int32_t *x) {
  const __m256i v = _mm256_cvtepi32_epi64(_mm_loadu_si128((const __m128i *)x));
  const __m256i d = _mm256_sub_epi64(_mm256_mul_epi32(v, _mm256_set1_epi64x(r.count)), _mm256_set1_epi64x(r.sum));
  return r.up >= 0 ? _mm256_sll_epi64(d, _mm_cvtsi32_si128(r.up)) : _mm256_srl_epi64(d, _mm_cvtsi32_si128(-r.up));
}

int64_t fx_squares(const FxNormRow &r, int64_t n, const int32_t *x) {
  __m256i total = _mm256_setzero_si256();
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    const __m256i d = _mm256_srai_epi32(fx_four(r, x + i), 7);
    total = _mm256_add_epi64(total, _mm256_mul_epi32(d, d));
  }
  alignas(32) int64_t totals[4];
  _mm256_store_si256((__m256i *)totals, total);
  return fx_add_squares(r, n - i, x + i, totals[0] + totals[1] + totals[2] + totals[3]);
}

// A shift of 64 bits to the right keeps the sign by an offset: |t * factor| and the half are below 2^62 together.
void fx_normalize(const FxNormRow &r, int64_t n, const int32_t *x, const int32_t *pairs, int32_t *y) {
  const int64_t offset = int64_t(1) << 62;
  const __m256i add = _mm256_set1_epi64x(offset + ((int64_t(1) << r.shift) >> 1));
  const __m256i back = _mm256_set1_epi64x(offset >> r.shift), half = _mm256_set1_epi64x(1 << 28);
  const __m256i inverse = _mm256_set1_epi64x(r.inverse), one = _mm256_set1_epi64x(1);
  const __m256i most = _mm256_set1_epi64x(INT32_MAX), least = _mm256_set1_epi64x(INT32_MIN);
  const __m128i shift = _mm_cvtsi32_si128(r.shift);
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    __m256i t = _mm256_mul_epi32(fx_four(r, x + i), inverse);
    t = _mm256_srli_epi64(_mm256_add_epi64(t, half), 29);
    const __m256i pair = _mm256_loadu_si256((const __m256i *)(pairs + 2 * i));
    __m256i v = _mm256_add_epi64(_mm256_mul_epi32(t, pair), add);
    v = _mm256_sub_epi64(_mm256_srl_epi64(v, shift), back);
    v = _mm256_add_epi64(v, _mm256_mul_epi32(_mm256_srli_epi64(pair, 32), one));  // the offsets with their signs
    v = _mm256_blendv_epi8(v, most, _mm256_cmpgt_epi64(v, most));
    v = _mm256_blendv_epi8(v, least, _mm256_cmpgt_epi64(least, v));
    v = _mm256_permutevar8x32_epi32(v, _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6));
    _mm_storeu_si128((__m128i *)(y + i), _mm256_castsi256_si128(v));
  }
  for (; i < n; ++i) y[i] = fx_normalized(r, x[i], pairs + 2 * i);
}

// Sixteen at a time; the last sixteen may overlap those in front. Unsigned and upside down the largest is the smallest,
// which one instruction finds among eight words: of each pair of bytes the smaller, in the low half.
int32_t largest(int64_t n, const int8_t *x) {
  if (n < 16) return first_largest(n, x);
  __m128i most = _mm_loadu_si128((const __m128i *)(x + n - 16));
  for (int64_t i = 0; i + 16 <= n; i += 16) most = _mm_max_epi8(most, _mm_loadu_si128((const __m128i *)(x + i)));
  const __m128i down = _mm_xor_si128(most, _mm_set1_epi8(127));
  const __m128i least = _mm_min_epu8(down, _mm_srli_epi16(down, 8));
  const __m128i words = _mm_and_si128(least, _mm_set1_epi16(255));
  const __m128i top = _mm_set1_epi8(int8_t(_mm_extract_epi16(_mm_minpos_epu16(words), 0) ^ 127));
  for (int64_t i = 0;; i = i + 32 <= n ? i + 16 : n - 16) {
    const int found = _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)(x + i)), top));
    if (found) return int32_t(i + __builtin_ctz(unsigned(found)));
  }
}

}  // namespace

const NormLoops norms_avx2 = {"avx2", moments, normalize, fx_moments, fx_squares, fx_normalize, largest};

}  // namespace axtool
#endif
