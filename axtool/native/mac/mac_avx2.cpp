// AVX2: int16 pairs. 6 pixels x 16 channels of int32 in 12 registers, two products a lane for each vpmaddwd.
#include "mac_variants.h"
#ifdef __AVX2__
#include <immintrin.h>

#include "mac_avx2_depthwise.h"
#include "mac_conv.h"
#include "mac_depthwise.h"

namespace axtool {
namespace {

struct Avx2 {
  using X = int16_t;
  using W = int16_t;
  static constexpr int offset = 0, kPixels = 6, kBlocks = 1;
  static constexpr int64_t kBandBytes = 160 << 10;  // of a 512 KB second level cache

  static void expand(const int8_t *src, int16_t *dst, int n) {
    int i = 0;
    for (; i + 16 <= n; i += 16)
      _mm256_storeu_si256((__m256i *)(dst + i), _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(src + i))));
    for (; i + 8 <= n; i += 8)
      _mm_storeu_si128((__m128i *)(dst + i), _mm_cvtepi8_epi16(_mm_loadl_epi64((const __m128i *)(src + i))));
    for (; i < n; ++i) dst[i] = src[i];
  }

  static size_t weight_elements(int quads) { return size_t(quads) * 64; }

  // [16][4] int8 -> [2][16][2] int16: each quad as two steps of a pair for all 16 channels.
  static void prepare(const int8_t *src, int16_t *dst, int quads) {
    for (int q = 0; q < quads; ++q, src += 64, dst += 64) {
      const __m256i a = _mm256_loadu_si256((const __m256i *)src), b = _mm256_loadu_si256((const __m256i *)(src + 32));
      _mm256_store_si256((__m256i *)(dst), low_pair(a));
      _mm256_store_si256((__m256i *)(dst + 16), low_pair(b));
      _mm256_store_si256((__m256i *)(dst + 32), high_pair(a));
      _mm256_store_si256((__m256i *)(dst + 48), high_pair(b));
    }
  }

  // Bytes 0, 1 (2, 3) of each dword as two int16: to the upper byte of a word, then an arithmetic shift.
  static constexpr int64_t kLow = 0x0580048001800080, kHigh = 0x0780068003800280;
  static __m256i low_pair(__m256i v) {
    return _mm256_srai_epi16(_mm256_shuffle_epi8(v, _mm256_set_epi64x(0x0d800c8009800880, kLow, 0x0d800c8009800880, kLow)), 8);
  }
  static __m256i high_pair(__m256i v) {
    return _mm256_srai_epi16(_mm256_shuffle_epi8(v, _mm256_set_epi64x(0x0f800e800b800a80, kHigh, 0x0f800e800b800a80, kHigh)), 8);
  }

  // acc += pair at p, in all lanes, times the weights. In assembly because GCC reassociates and reorders the intrinsics
  // of a whole tile until it spills, which costs a third of the speed.
  static inline __attribute__((always_inline)) void step(__m256i &a0, __m256i &a1, const int16_t *p,
                                                         __m256i w0, __m256i w1) {
    __m256i v, u;
    asm("vpbroadcastd %[pair], %[v]\n\tvpmaddwd %[w0], %[v], %[u]\n\tvpmaddwd %[w1], %[v], %[v]\n\t"
        "vpaddd %[u], %[a0], %[a0]\n\tvpaddd %[v], %[a1], %[a1]"
        : [v] "=&x"(v), [u] "=&x"(u), [a0] "+x"(a0), [a1] "+x"(a1)
        : [pair] "m"(*(const Pair *)p), [w0] "x"(w0), [w1] "x"(w1));
  }
  struct Pair {
    int16_t of[2];
  };

  template <int N>
  static void tile_of(const MacTask &t, const int16_t *const *p, const MacRun *runs, int count, const int16_t *w,
                      const BlockOut &out, int8_t *const *y) {
    __m256i acc[N][2];  // never passed on: arrays whose address is taken live in memory
    for (int i = 0; i < N; ++i) acc[i][0] = avx2_load(out.bias), acc[i][1] = avx2_load(out.bias + 8);
    const int16_t *q[N];
    for (int i = 0; i < N; ++i) q[i] = p[i];
    for (int r = 0; r < count; ++r) {
      const int16_t *wr = w + int64_t(runs[r].w) * 64;
      int64_t x = runs[r].x;
      for (const int64_t end = x + runs[r].quads * 4; x < end; x += 4, wr += 64)
        for (int s = 0; s < 2; ++s) {
          const __m256i w0 = _mm256_load_si256((const __m256i *)(wr + 32 * s));
          const __m256i w1 = _mm256_load_si256((const __m256i *)(wr + 32 * s + 16));
          for (int i = 0; i < N; ++i) step(acc[i][0], acc[i][1], q[i] + x + 2 * s, w0, w1);
        }
    }
    __m256i sums[N][2];
    for (int i = 0; i < N; ++i) sums[i][0] = acc[i][0], sums[i][1] = acc[i][1];
    avx2_finish(t, out, N, sums, y);
  }

  static void tile(const MacTask &t, int n, int, const int16_t *const *p, const MacRun *runs, int count,
                   const int16_t *w, int64_t, const BlockOut *out, int8_t *const *y) {
    switch (n) {
      case 1: return tile_of<1>(t, p, runs, count, w, *out, y);
      case 2: return tile_of<2>(t, p, runs, count, w, *out, y);
      case 3: return tile_of<3>(t, p, runs, count, w, *out, y);
      case 4: return tile_of<4>(t, p, runs, count, w, *out, y);
      case 5: return tile_of<5>(t, p, runs, count, w, *out, y);
      default: return tile_of<6>(t, p, runs, count, w, *out, y);
    }
  }
};
}  // namespace

size_t mac_scratch_avx2(const MacTask &t) {
  if (t.kind == MacKind::depthwise) return DepthwiseDriver<Avx2Depthwise>(t, nullptr).scratch_bytes;
  return ConvDriver<Avx2>(t, nullptr).scratch_bytes;
}

void run_mac_avx2(const MacTask &t, void *scratch) {
  if (t.kind == MacKind::depthwise) return DepthwiseDriver<Avx2Depthwise>(t, scratch).run();
  ConvDriver<Avx2>(t, scratch).run();
}

bool mac_built_avx2() { return true; }
}  // namespace axtool
#else
namespace axtool {
size_t mac_scratch_avx2(const MacTask &) { return 64; }
void run_mac_avx2(const MacTask &t, void *) { run_mac_portable(t); }
bool mac_built_avx2() { return false; }
}  // namespace axtool
#endif
