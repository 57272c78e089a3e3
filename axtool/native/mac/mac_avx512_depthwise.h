// AVX-512 VNNI: depthwise convolution, four taps of a kernel row for 16 channels in one vpdpbusd.
//
// Per block of 16 channels the input passes by once, row after row. A row becomes bytes [column][16], x + 128 and the
// zero point outside the tensor, and from them entries: the bytes of four neighbouring columns, [16][4]. A ring keeps
// the entries of as many rows as a kernel is high, in the first cache; an output is kh * ceil(kw / 4) products of them.
#pragma once
#include "mac_avx512_finish.h"
#include "mac_plan.h"

namespace axtool {
namespace {

// N sums: entries at from[k] + i * step against weights k.
template <int N>
void avx512_depthwise_sums_of(const uint8_t *const *from, int64_t at, int64_t step, int count, const int8_t *w,
                              const int32_t *bias, __m512i *sums) {
  __m512i acc[N];
  for (int i = 0; i < N; ++i) acc[i] = _mm512_loadu_si512(bias);
  for (int k = 0; k < count; ++k, w += 64) {
    const __m512i weights = _mm512_loadu_si512(w);
    const uint8_t *x = from[k] + at;
    for (int i = 0; i < N; ++i, x += step) acc[i] = _mm512_dpbusd_epi32(acc[i], _mm512_loadu_si512(x), weights);
  }
  for (int i = 0; i < N; ++i) _mm512_storeu_si512(sums + i, acc[i]);
}

struct Avx512Depthwise {
  static constexpr int kPixels = 8, kPending = 64;

  const MacTask &t;
  const int high, entries_x, taps;  // rows that a kernel spans; entries of a row of it; of all
  const int gap, entries;           // columns from an entry to the next; entries of a row of the box
  MacBand plan;
  int8_t *weights;                  // [taps][16][4]
  const uint8_t **from;             // [taps] where the entries of an output row begin
  uint8_t *line, *ring;             // [columns][16] and [high][entries][16][4]
  int8_t **to;                      // [kPending] where sums that wait go
  __m512i *sums;
  int8_t *by_value = nullptr;       // see BlockOut
  size_t scratch_bytes;

  static bool suits(const MacTask &t) { return t.in_c == t.out_c && (t.dw == 1 || t.kw == 1); }

  Avx512Depthwise(const MacTask &task, void *scratch)
      : t(task), high((t.kh - 1) * t.dh + 1), entries_x((t.kw + 3) / 4), taps(t.kh * entries_x),
        gap(entries_x == 1 ? t.sw : t.sw % 4 == 0 ? 4 : t.sw % 2 == 0 ? 2 : 1),
        entries(((t.ow - 1) * t.sw + 4 * (entries_x - 1)) / gap + 1) {
    plan = {0, t.oh, t.oy * t.sh - t.pt, (t.oh - 1) * t.sh + high, 1, t.ox * t.sw - t.pl, (t.ow - 1) * t.sw + t.kw, 1,
            1};
    Carve carve{static_cast<char *>(scratch)};
    weights = static_cast<int8_t *>(carve.take(size_t(taps) * 64));
    from = static_cast<const uint8_t **>(carve.take(sizeof(uint8_t *) * taps));
    line = static_cast<uint8_t *>(carve.take((size_t(entries - 1) * gap + 4) * 16));
    ring = static_cast<uint8_t *>(carve.take(size_t(high) * entries * 64));
    to = static_cast<int8_t **>(carve.take(sizeof(int8_t *) * kPending));
    sums = static_cast<__m512i *>(carve.take(size_t(kPending) * 64));
    if (mac_wants_values(t)) by_value = static_cast<int8_t *>(carve.take(65536));
    scratch_bytes = carve.used;
  }

  void run() {
    if (by_value) avx512_list_values(t, by_value);
    for (int c = 0; c < t.on; c += 16) run_block(c, mac_min(16, t.on - c));
  }

  void run_block(int c, int channels) {
    Avx512Out out;
    out.prepare(t.params + int64_t(c / 16) * 64, channels, by_value);
    prepare_weights(t.w + int64_t(c / 16) * t.kh * t.kw * 16, out);
    int pending = 0;
    for (int y = 0, next = 0; y < t.oh; ++y) {
      for (next = mac_max(next, y * t.sh); next < y * t.sh + high; ++next) {
        fill_line(next, c, channels);
        fill_entries(ring + int64_t(next % high) * entries * 64);
      }
      for (int k = 0; k < taps; ++k) {
        const int row = y * t.sh + k / entries_x * t.dh;
        from[k] = ring + (int64_t(row % high) * entries + k % entries_x * 4 / gap) * 64;
      }
      const int groups = (t.ow + kPixels - 1) / kPixels;
      for (int g = 0, x = 0; g < groups; ++g) {
        const int n = (t.ow - x) / (groups - g);
        add_sums(n, x, out, sums + pending);
        for (int i = 0; i < n; ++i, ++x) to[pending++] = t.y + y * t.y_row + x * t.y_pixel;
        if (pending > kPending - kPixels) avx512_finish<1>(t, out, pending, sums, to, c), pending = 0;
      }
    }
    avx512_finish<1>(t, out, pending, sums, to, c);
  }

  // [kh][kw][16] to [kh][entries_x][16][4], and the bias to match.
  void prepare_weights(const int8_t *stored, Avx512Out &out) {
    __m512i hit = _mm512_set1_epi32(0);
    for (int k = 0; k < taps; ++k) {
      const int first = k % entries_x * 4;
      __m128i tap[4];
      for (int i = 0; i < 4; ++i)
        tap[i] = first + i < t.kw
                     ? _mm_loadu_si128((const __m128i *)(stored + (k / entries_x * t.kw + first + i) * 16))
                     : _mm_setzero_si128();
      const __m128i a = _mm_unpacklo_epi8(tap[0], tap[1]), b = _mm_unpackhi_epi8(tap[0], tap[1]);
      const __m128i c = _mm_unpacklo_epi8(tap[2], tap[3]), d = _mm_unpackhi_epi8(tap[2], tap[3]);
      const __m128i quads[4] = {_mm_unpacklo_epi16(a, c), _mm_unpackhi_epi16(a, c), _mm_unpacklo_epi16(b, d),
                                _mm_unpackhi_epi16(b, d)};
      memcpy(weights + k * 64, quads, 64);
      hit = _mm512_dpbusd_epi32(hit, _mm512_set1_epi8(1), _mm512_loadu_si512(weights + k * 64));
    }
    _mm512_storeu_si512(out.bias, _mm512_sub_epi32(_mm512_loadu_si512(out.params), _mm512_slli_epi32(hit, 7)));
  }

  // 16 channels of one row; what lies after its last column meets zero weights.
  void fill_line(int r, int c, int channels) {
    const MacSpan inside = mac_inside(t, plan, r);
    memset(line, t.x_zp + 128, size_t(inside.left) * 16);
    memset(line + inside.right * 16, t.x_zp + 128, size_t(plan.in_cols - inside.right) * 16);
    const __m128i flip = _mm_set1_epi8(int8_t(-128));
    const int8_t *src = inside.x + t.oc + c;
    uint8_t *dst = line + inside.left * 16;
    const uint8_t *const end = line + inside.right * 16;
    const __mmask16 meant = __mmask16((1u << channels) - 1);
    if (channels == 16)
      for (; dst < end; src += t.x_pixel, dst += 16)
        _mm_storeu_si128((__m128i *)dst, _mm_xor_si128(_mm_loadu_si128((const __m128i *)src), flip));
    else
      for (; dst < end; src += t.x_pixel, dst += 16)
        _mm_storeu_si128((__m128i *)dst, _mm_xor_si128(_mm_maskz_loadu_epi8(meant, src), flip));
  }

  void fill_entries(uint8_t *dst) const {
    const __m512i columns = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i bytes = _mm512_set4_epi32(0x0f0b0703, 0x0e0a0602, 0x0d090501, 0x0c080400);
    const uint8_t *src = line;
    for (int e = 0; e < entries; ++e, src += gap * 16, dst += 64)
      _mm512_storeu_si512(dst, _mm512_shuffle_epi8(_mm512_permutexvar_epi32(columns, _mm512_loadu_si512(src)), bytes));
  }

  void add_sums(int n, int x, const Avx512Out &out, __m512i *dst) const {
    const int64_t step = int64_t(t.sw) / gap * 64, at = x * step;
    switch (n) {
      case 1: return avx512_depthwise_sums_of<1>(from, at, step, taps, weights, out.bias, dst);
      case 2: return avx512_depthwise_sums_of<2>(from, at, step, taps, weights, out.bias, dst);
      case 3: return avx512_depthwise_sums_of<3>(from, at, step, taps, weights, out.bias, dst);
      case 4: return avx512_depthwise_sums_of<4>(from, at, step, taps, weights, out.bias, dst);
      case 5: return avx512_depthwise_sums_of<5>(from, at, step, taps, weights, out.bias, dst);
      case 6: return avx512_depthwise_sums_of<6>(from, at, step, taps, weights, out.bias, dst);
      case 7: return avx512_depthwise_sums_of<7>(from, at, step, taps, weights, out.bias, dst);
      default: return avx512_depthwise_sums_of<8>(from, at, step, taps, weights, out.bias, dst);
    }
  }
};
}  // namespace
}  // namespace axtool
