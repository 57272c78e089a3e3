// AVX-512 VNNI: vpdpbusd on x + 128 and the weights as stored. 8 pixels x 32 channels of int32 in 16 registers; a step
// is 8 broadcasts, 2 weight loads and 16 vpdpbusd, so that loads and decoding stay well under the multipliers' time.
#include "mac_variants.h"

#if defined(__AVX512VNNI__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12's own header: _mm512_undefined_epi32
#include <immintrin.h>
#define AXTOOL_AVX512 1
#elif defined(AXTOOL_EMULATE_AVX512)  // a header given to the compiler defines the intrinsics in plain C++ (tests)
#define AXTOOL_AVX512 1
#endif

#ifdef AXTOOL_AVX512
#include "mac_avx2_depthwise.h"
#include "mac_avx512_finish.h"
#include "mac_conv.h"
#include "mac_depthwise.h"

namespace axtool {
namespace {

struct Avx512 {
  static constexpr bool kValues = false;
  using X = uint8_t;
  using W = int8_t;
  using Step = MacRun;
  static constexpr int kCopies = 1, offset = 128, kPixels = 8, kBlocks = 2;
  static constexpr int64_t kBandBytes = 160 << 10;

  static void expand(const int8_t *src, uint8_t *dst, int n) {
    int i = 0;
    for (; i + 32 <= n; i += 32)
      _mm256_storeu_si256((__m256i *)(dst + i), _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)(src + i)),
                                                                 _mm256_set1_epi8(int8_t(-128))));
    for (; i + 16 <= n; i += 16)
      _mm_storeu_si128((__m128i *)(dst + i),
                       _mm_xor_si128(_mm_loadu_si128((const __m128i *)(src + i)), _mm_set1_epi8(int8_t(-128))));
    for (; i + 8 <= n; i += 8)
      _mm_storel_epi64((__m128i *)(dst + i),
                       _mm_xor_si128(_mm_loadl_epi64((const __m128i *)(src + i)), _mm_set1_epi8(int8_t(-128))));
    for (; i < n; ++i) dst[i] = uint8_t(src[i] ^ 0x80);
  }

  static size_t weight_elements(int) { return 0; }
  static void prepare(const int8_t *, int8_t *, int) {}

  template <int N, int B>
  static void tile_of(const MacTask &t, const uint8_t *const *p, const MacRun *runs, int count, const int8_t *w,
                      int64_t stride, const BlockOut *out, int8_t *const *y, int c) {
    __m512i acc[B][N];  // never passed on: arrays whose address is taken live in memory
    for (int b = 0; b < B; ++b)
      for (int i = 0; i < N; ++i) acc[b][i] = _mm512_loadu_si512(out[b].bias);
    const uint8_t *q[N];
    for (int i = 0; i < N; ++i) q[i] = p[i];
    for (int r = 0; r < count; ++r) {
      const int8_t *wr = w + int64_t(runs[r].w) * 64;
      int64_t x = runs[r].x;
      for (const int64_t end = x + runs[r].quads * 4; x < end; x += 4, wr += 64) {
        __m512i weights[B];
        for (int b = 0; b < B; ++b) weights[b] = _mm512_loadu_si512(wr + b * stride);
        for (int i = 0; i < N; ++i) {
          int32_t quad;
          memcpy(&quad, q[i] + x, 4);
          const __m512i v = _mm512_set1_epi32(quad);
          for (int b = 0; b < B; ++b) acc[b][i] = _mm512_dpbusd_epi32(acc[b][i], v, weights[b]);
        }
      }
    }
    for (int b = 0; b < B; ++b) {
      __m512i sums[N];
      for (int i = 0; i < N; ++i) sums[i] = acc[b][i];
      avx512_finish(t, out[b], N, sums, y, c + 16 * b);
    }
  }

  template <int N>
  static void tile_pixels(const MacTask &t, int blocks, const uint8_t *const *p, const MacRun *runs, int count,
                          const int8_t *w, int64_t stride, const BlockOut *out, int8_t *const *y, int c) {
    if (blocks == 2) return tile_of<N, 2>(t, p, runs, count, w, stride, out, y, c);
    tile_of<N, 1>(t, p, runs, count, w, stride, out, y, c);
  }

  static void tile(const MacTask &t, int n, int blocks, const uint8_t *const *p, const MacRun *runs, int count,
                   const int8_t *w, int64_t stride, const BlockOut *out, int8_t *const *y, int c) {
    switch (n) {
      case 1: return tile_pixels<1>(t, blocks, p, runs, count, w, stride, out, y, c);
      case 2: return tile_pixels<2>(t, blocks, p, runs, count, w, stride, out, y, c);
      case 3: return tile_pixels<3>(t, blocks, p, runs, count, w, stride, out, y, c);
      case 4: return tile_pixels<4>(t, blocks, p, runs, count, w, stride, out, y, c);
      case 5: return tile_pixels<5>(t, blocks, p, runs, count, w, stride, out, y, c);
      case 6: return tile_pixels<6>(t, blocks, p, runs, count, w, stride, out, y, c);
      case 7: return tile_pixels<7>(t, blocks, p, runs, count, w, stride, out, y, c);
      default: return tile_pixels<8>(t, blocks, p, runs, count, w, stride, out, y, c);
    }
  }
};
}  // namespace

size_t mac_scratch_avx512(const MacTask &t) {
  if (t.kind == MacKind::depthwise) return DepthwiseDriver<Avx2Depthwise>(t, nullptr).scratch_bytes;
  return ConvDriver<Avx512>(t, nullptr).scratch_bytes;
}

void run_mac_avx512(const MacTask &t, void *scratch) {
  if (t.kind == MacKind::depthwise) return DepthwiseDriver<Avx2Depthwise>(t, scratch).run();
  ConvDriver<Avx512>(t, scratch).run();
}

bool mac_built_avx512() { return true; }
}  // namespace axtool
#else
namespace axtool {
size_t mac_scratch_avx512(const MacTask &) { return 64; }
void run_mac_avx512(const MacTask &t, void *) { run_mac_portable(t); }
bool mac_built_avx512() { return false; }
}  // namespace axtool
#endif
