#include "least_squares.h"

#include "least_squares_loops.h"
#include "mac/mac.h"

namespace axtool {

bool round_rows_avx2(const Rounding &rounding);
void gram_avx2(int64_t groups, int64_t rows, int64_t k, const float *x, double *gram);

bool round_rows_f64(const Rounding &rounding) {
#if defined(__x86_64__)
  if (isa_available(Isa::avx2)) return round_rows_avx2(rounding);
#endif
  return round_rows(rounding);
}

void gram_f32(int64_t groups, int64_t rows, int64_t k, const float *x, double *gram) {
#if defined(__x86_64__)
  if (isa_available(Isa::avx2)) return gram_avx2(groups, rows, k, x, gram);
#endif
  add_gram(groups, rows, k, x, gram);
}

namespace {

// The taps of one window that begins at (y, x), 0 outside of the plane.
void taps_at(const Windows &w, const float *plane, int64_t y, int64_t x, float *to) {
  for (int64_t ky = 0; ky < w.kernel[0]; ++ky, y += w.dilation[0])
    for (int64_t kx = 0; kx < w.kernel[1]; ++kx) {
      const int64_t at = x + kx * w.dilation[1];
      *to++ = y >= 0 && y < w.height && at >= 0 && at < w.width ? plane[y * w.width + at] : 0.0f;
    }
}

}  // namespace

// Some channels at a time, so that what is read stays near while it is written a window at a time.
void windows_f32(const Windows &w) {
  const int64_t taps = w.kernel[0] * w.kernel[1], each = w.channels / w.groups, k = each * taps, size = w.height * w.width;
  const int64_t together = std::min<int64_t>(each, 16);
  const int64_t rows = (w.kernel[0] - 1) * w.dilation[0] + 1, columns = (w.kernel[1] - 1) * w.dilation[1] + 1;
  std::vector<int64_t> offsets;
  for (int64_t t = 0; t < taps; ++t)
    offsets.push_back(t / w.kernel[1] * w.dilation[0] * w.width + t % w.kernel[1] * w.dilation[1]);
  for (int64_t first = 0; first < w.channels; first += together)
    for (int64_t n = 0; n < w.count; ++n) {
      const int64_t y = w.y[n], x = w.x[n];
      const bool inside = y >= 0 && y + rows <= w.height && x >= 0 && x + columns <= w.width;
      for (int64_t c = first; c < std::min(first + together, w.channels); ++c) {
        float *to = w.found + ((c / each) * w.count + n) * k + c % each * taps;
        const float *plane = w.image + c * size;
        if (!inside) taps_at(w, plane, y, x, to);
        else
          for (int64_t t = 0; t < taps; ++t) to[t] = plane[y * w.width + x + offsets[size_t(t)]];
      }
    }
}

}  // namespace axtool
