// AVX2: int16 pairs. 6 pixels x 16 channels of int32 in 12 registers, two products a lane for each vpmaddwd.
#include "mac_variants.h"
#ifdef __AVX2__
#include <immintrin.h>

#include "mac_avx2_bytes.h"
#include "mac_avx2_depthwise.h"
#include "mac_avx2_winograd.h"
#include "mac_conv.h"
#include "mac_depthwise.h"

namespace axtool {
namespace {

struct Avx2 {
  using X = int16_t;
  using W = int16_t;
  using Step = MacRun;
  static constexpr int kCopies = 1, offset = 0, kPixels = 6, kBlocks = 1;
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

  static void tile(const MacTask &t, int n, int, const int16_t *const *p, const MacRun *runs, int count,
                   const int16_t *w, int64_t, const BlockOut *out, int8_t *const *y, int c) {
    __m256i sums[kPixels][2];
    avx2_sums(n, p, runs, count, w, out->bias, sums);
    avx2_finish(t, *out, n, sums, y, c);
  }
};
}  // namespace

size_t mac_scratch_avx2(const MacTask &t) {
  if (t.kind == MacKind::depthwise) return DepthwiseDriver<Avx2Depthwise>(t, nullptr).scratch_bytes;
  if (WinogradDriver<Avx2>::suits(t)) return WinogradDriver<Avx2>(t, nullptr).scratch_bytes;
  // which of the two runs depends on the weights
  const size_t pairs = ConvDriver<Avx2>(t, nullptr).scratch_bytes, bytes = ConvDriver<Avx2Bytes>(t, nullptr).scratch_bytes;
  return pairs > bytes ? pairs : bytes;
}

void run_mac_avx2(const MacTask &t, void *scratch) {
  if (t.kind == MacKind::depthwise) return DepthwiseDriver<Avx2Depthwise>(t, scratch).run();
  if (WinogradDriver<Avx2>::suits(t)) return WinogradDriver<Avx2>(t, scratch).run();
  if (Avx2Bytes::suits(t)) return ConvDriver<Avx2Bytes>(t, scratch).run();
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
