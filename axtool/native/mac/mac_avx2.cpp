// AVX2: int16 pairs. 6 pixels x 16 channels of int32 in 12 registers, two products a lane for each vpmaddwd.
#include "mac_variants.h"
#ifdef __AVX2__
#include <immintrin.h>

#include "mac_avx2_bytes.h"
#include "mac_avx2_depthwise.h"
#include "mac_avx2_direct.h"
#include "mac_avx2_freeze.h"
#include "mac_avx2_winograd.h"
#include "mac_conv.h"
#include "mac_depthwise.h"

namespace axtool {
namespace {

struct Avx2 : Avx2Values {
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
    const __m256i bytes = _mm256_set_epi64x(0x0d800c8009800880, kLow, 0x0d800c8009800880, kLow);
    return _mm256_srai_epi16(_mm256_shuffle_epi8(v, bytes), 8);
  }
  static __m256i high_pair(__m256i v) {
    const __m256i bytes = _mm256_set_epi64x(0x0f800e800b800a80, kHigh, 0x0f800e800b800a80, kHigh);
    return _mm256_srai_epi16(_mm256_shuffle_epi8(v, bytes), 8);
  }

  static void tile(const MacTask &t, int n, int, const int16_t *const *p, const MacRun *runs, int count,
                   const int16_t *w, int64_t, const BlockOut *out, int8_t *const *y, int c) {
    __m256i sums[kPixels][2];
    avx2_sums(n, p, runs, count, w, out->bias, sums);
    avx2_finish(t, *out, n, sums, y, c);
  }
};

// A fully connected layer, or nearly: each weight is used for so few pixels that it is widened where it is used.
struct Avx2Few : Avx2 {
  static constexpr int kPixels = 3;
  using W = int8_t;

  static bool suits(const MacTask &t) { return t.oh * t.ow <= kPixels; }
  static size_t weight_elements(int) { return 0; }
  static void prepare(const int8_t *, int8_t *, int) {}

  template <int N>
  static void tile_of(const MacTask &t, const int16_t *const *p, const MacRun *runs, int count, const int8_t *w,
                      const BlockOut &out, int8_t *const *y, int c) {
    __m256i acc[N][4];
    for (int i = 0; i < N; ++i) {
      acc[i][0] = avx2_load(out.bias), acc[i][1] = avx2_load(out.bias + 8);
      acc[i][2] = acc[i][3] = _mm256_setzero_si256();
    }
    for (int r = 0; r < count; ++r) {
      const int8_t *wr = w + int64_t(runs[r].w) * 64;
      for (int x = runs[r].x, end = x + runs[r].quads * 4; x < end; x += 4, wr += 64) {
        const __m256i a = _mm256_loadu_si256((const __m256i *)wr), b = _mm256_loadu_si256((const __m256i *)(wr + 32));
        _mm_prefetch((const char *)wr + 1024, _MM_HINT_T0);  // weights come from memory once: be there first
        const __m256i weights[4] = {low_pair(a), low_pair(b), high_pair(a), high_pair(b)};
        for (int i = 0; i < N; ++i) {
          int32_t pair[2];
          memcpy(pair, p[i] + x, 8);
          for (int j = 0; j < 4; ++j)
            acc[i][j] = _mm256_add_epi32(acc[i][j], _mm256_madd_epi16(_mm256_set1_epi32(pair[j / 2]), weights[j]));
        }
      }
    }
    __m256i sums[N][2];
    for (int i = 0; i < N; ++i)
      for (int j = 0; j < 2; ++j) sums[i][j] = _mm256_add_epi32(acc[i][j], acc[i][j + 2]);
    avx2_finish(t, out, N, sums, y, c);
  }

  static void tile(const MacTask &t, int n, int, const int16_t *const *p, const MacRun *runs, int count,
                   const int8_t *w, int64_t, const BlockOut *out, int8_t *const *y, int c) {
    switch (n) {
      case 1: return tile_of<1>(t, p, runs, count, w, *out, y, c);
      case 2: return tile_of<2>(t, p, runs, count, w, *out, y, c);
      default: return tile_of<3>(t, p, runs, count, w, *out, y, c);
    }
  }
};
using Avx2Winograd2 = WinogradDriver<Avx2, Winograd2>;
struct Avx2Winograd4 : WinogradDriver<Avx2, Winograd4> {
  using WinogradDriver::WinogradDriver;
  // Measured: a tile costs 91 cycles a quad of channels and 474 once for the weights, against 40 and 200. `more`: what
  // remains of their difference when they are frozen.
  static constexpr int kFrozenMore = 100;
  static bool gains(const MacTask &t, int more = 274) {
    return WinogradDriver::gains(t) && (tiles(t) * 91 + more < Avx2Winograd2::tiles(t) * 40);
  }
};
}  // namespace

size_t mac_scratch_avx2(const MacTask &t) {
  if (t.frozen) switch (t.frozen->form) {
      case MacForm::winograd2: return Avx2Winograd2(t, nullptr).scratch_bytes;
      case MacForm::winograd4: return Avx2Winograd4(t, nullptr).scratch_bytes;
      default: return Avx2Packed(t, nullptr).scratch_bytes;
    }
  if (t.kind == MacKind::depthwise) return DepthwiseDriver<Avx2Depthwise>(t, nullptr).scratch_bytes;
  if (Avx2Winograd4::gains(t)) return Avx2Winograd4(t, nullptr).scratch_bytes;
  if (Avx2Winograd2::gains(t)) return Avx2Winograd2(t, nullptr).scratch_bytes;
  if (Avx2Few::suits(t)) return ConvDriver<Avx2Few>(t, nullptr).scratch_bytes;
  if (Avx2Direct<Avx2>::suits(t)) return Avx2Direct<Avx2>(t, nullptr).scratch_bytes;
  // which of the two runs depends on the weights
  const size_t pairs = ConvDriver<Avx2>(t, nullptr).scratch_bytes;
  const size_t bytes = ConvDriver<Avx2Bytes>(t, nullptr).scratch_bytes;
  return pairs > bytes ? pairs : bytes;
}

// Measured: beyond these bytes, transformed weights that come from afar in every run, up to eight times as many as the
// stored ones, take longer than transforming them anew.
static constexpr int64_t kMostTransformed = 2 << 20;

static MacForm best_form(const MacTask &t) {
  if (Avx2Winograd4::gains(t, Avx2Winograd4::kFrozenMore) && Avx2Winograd4::frozen_bytes(t) <= kMostTransformed)
    return MacForm::winograd4;
  if (Avx2Winograd4::gains(t)) return MacForm::best;
  if (Avx2Winograd2::gains(t))
    return Avx2Winograd2::frozen_bytes(t) <= kMostTransformed ? MacForm::winograd2 : MacForm::best;
  return Avx2Packed::suits(t) && Avx2Packed::gains(t) ? MacForm::packed : MacForm::best;
}

MacFrozen *mac_freeze_avx2(const MacTask &t, MacForm form) {
  switch (form == MacForm::best ? best_form(t) : form) {
    case MacForm::winograd4: return Avx2Winograd4::suits(t) ? Avx2Winograd4::freeze(t, MacForm::winograd4) : nullptr;
    case MacForm::winograd2: return Avx2Winograd2::suits(t) ? Avx2Winograd2::freeze(t, MacForm::winograd2) : nullptr;
    case MacForm::packed: return Avx2Packed::suits(t) ? avx2_freeze(t) : nullptr;
    default: return nullptr;
  }
}

void run_mac_avx2(const MacTask &t, void *scratch) {
  if (t.frozen) switch (t.frozen->form) {
      case MacForm::winograd2: return Avx2Winograd2(t, scratch).run();
      case MacForm::winograd4: return Avx2Winograd4(t, scratch).run();
      default: return Avx2Packed(t, scratch).run();
    }
  if (t.kind == MacKind::depthwise) return DepthwiseDriver<Avx2Depthwise>(t, scratch).run();
  if (Avx2Winograd4::gains(t)) return Avx2Winograd4(t, scratch).run();
  if (Avx2Winograd2::gains(t)) return Avx2Winograd2(t, scratch).run();
  if (Avx2Few::suits(t)) return ConvDriver<Avx2Few>(t, scratch).run();
  if (Avx2Direct<Avx2>::suits(t)) return Avx2Direct<Avx2>(t, scratch).run();
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
MacFrozen *mac_freeze_avx2(const MacTask &, MacForm) { return nullptr; }
}  // namespace axtool
#endif
