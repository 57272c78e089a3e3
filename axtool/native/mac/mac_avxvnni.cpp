// AVX-VNNI, the 256-bit vpdpbusd of CPUs without AVX-512: x + 128 and the weights as stored, 6 pixels x 16 channels of
// int32 in 12 registers. All else is that of AVX2.
#include "mac_variants.h"

#if defined(__AVXVNNI__) || defined(AXTOOL_EMULATE_AVX512)  // see mac_avx512.cpp
#include <immintrin.h>

#include "mac_avx2_bytes.h"
#include "mac_avx2_depthwise.h"
#include "mac_conv.h"
#include "mac_depthwise.h"

namespace axtool {
namespace {

struct AvxVnni : Avx2Values {
  using X = uint8_t;
  using W = int8_t;
  using Step = MacRun;
  static constexpr int kCopies = 1, offset = 128, kPixels = 6, kBlocks = 1;
  static constexpr int64_t kBandBytes = 160 << 10;

  static void expand(const int8_t *src, uint8_t *dst, int n) { Avx2Bytes::expand(src, dst, n); }
  static size_t weight_elements(int) { return 0; }
  static void prepare(const int8_t *, int8_t *, int) {}

  template <int N>  // a function of its own: inlined, its pointers may be spilled
  __attribute__((noinline)) static void tile_of(const MacTask &t, const uint8_t *const *p, const MacRun *runs, int count,
                                                const int8_t *w, const BlockOut &out, int8_t *const *y, int c) {
    __m256i acc[N][2];  // never passed on: arrays whose address is taken live in memory
    for (int i = 0; i < N; ++i) acc[i][0] = avx2_load(out.bias), acc[i][1] = avx2_load(out.bias + 8);
    for (int r = 0; r < count; ++r) {
      const int8_t *wr = w + int64_t(runs[r].w) * 64;
      const int64_t bytes = int64_t(runs[r].quads) * 4;
      const uint8_t *q[N];
      for (int i = 0; i < N; ++i) q[i] = p[i] + runs[r].x + bytes;
      for (int64_t x = -bytes; x < 0; x += 4, wr += 64) {
        const __m256i w0 = _mm256_loadu_si256((const __m256i *)wr);
        const __m256i w1 = _mm256_loadu_si256((const __m256i *)(wr + 32));
        for (int i = 0; i < N; ++i) {
          int32_t quad;
          memcpy(&quad, q[i] + x, 4);
          const __m256i v = _mm256_set1_epi32(quad);
          acc[i][0] = _mm256_dpbusd_avx_epi32(acc[i][0], v, w0);
          acc[i][1] = _mm256_dpbusd_avx_epi32(acc[i][1], v, w1);
        }
      }
    }
    __m256i sums[N][2];
    for (int i = 0; i < N; ++i) sums[i][0] = acc[i][0], sums[i][1] = acc[i][1];
    avx2_finish(t, out, N, sums, y, c);
  }

  static void tile(const MacTask &t, int n, int, const uint8_t *const *p, const MacRun *runs, int count,
                   const int8_t *w, int64_t, const BlockOut *out, int8_t *const *y, int c) {
    switch (n) {
      case 1: return tile_of<1>(t, p, runs, count, w, *out, y, c);
      case 2: return tile_of<2>(t, p, runs, count, w, *out, y, c);
      case 3: return tile_of<3>(t, p, runs, count, w, *out, y, c);
      case 4: return tile_of<4>(t, p, runs, count, w, *out, y, c);
      case 5: return tile_of<5>(t, p, runs, count, w, *out, y, c);
      default: return tile_of<6>(t, p, runs, count, w, *out, y, c);
    }
  }
};
}  // namespace

size_t mac_scratch_avxvnni(const MacTask &t) {
  if (t.kind == MacKind::depthwise) return DepthwiseDriver<Avx2Depthwise>(t, nullptr).scratch_bytes;
  return ConvDriver<AvxVnni>(t, nullptr).scratch_bytes;
}

void run_mac_avxvnni(const MacTask &t, void *scratch) {
  if (t.kind == MacKind::depthwise) return DepthwiseDriver<Avx2Depthwise>(t, scratch).run();
  ConvDriver<AvxVnni>(t, scratch).run();
}

bool mac_built_avxvnni() { return true; }
}  // namespace axtool
#else
namespace axtool {
size_t mac_scratch_avxvnni(const MacTask &) { return 64; }
void run_mac_avxvnni(const MacTask &t, void *) { run_mac_portable(t); }
bool mac_built_avxvnni() { return false; }
}  // namespace axtool
#endif
