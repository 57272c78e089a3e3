// The obvious loops: what every other file of this folder must agree with, bit for bit.
#include "mac_scalar.h"
#include "mac_variants.h"

namespace axtool {
namespace {

// The input index that tap k of output index o reads, or false where a transposed convolution's tap falls between
// input pixels. The index may be outside the tensor.
bool source(bool transposed, int o, int k, int stride, int dilation, int pad, int *in) {
  if (!transposed) {
    *in = o * stride - pad + k * dilation;
    return true;
  }
  const int at = o + pad - k * dilation;
  *in = at >= 0 ? at / stride : -((-at + stride - 1) / stride);
  return *in * stride == at;
}

int read(const MacTask &t, int iy, int ix, int c) {
  if (iy < 0 || iy >= t.in_h || ix < 0 || ix >= t.in_w) return t.x_zp;
  return t.x[(iy - t.view_y) * t.x_row + (ix - t.view_x) * t.x_pixel + c];
}

// The input channels and the weights of one output channel.
struct Channel {
  int first, count;       // input channels
  int block, lane;        // of params and of the weights
  const int8_t *w;        // weight of (tap 0, first input channel)
};

Channel channel(const MacTask &t, int c) {
  Channel ch;
  if (t.kind == MacKind::depthwise) {
    ch.first = c / (t.out_c / t.in_c), ch.count = 1;
    ch.block = c / 16 - t.oc / 16, ch.lane = c % 16;
    ch.w = t.w + int64_t(ch.block) * t.kh * t.kw * 16 + ch.lane;
    return ch;
  }
  const int cin = t.in_c / t.group, cout = t.out_c / t.group, blocks = mac_blocks(cout);
  ch.first = c / cout * cin, ch.count = cin;
  ch.block = c / cout * blocks + c % cout / 16 - (t.oc / cout * blocks + t.oc % cout / 16), ch.lane = c % cout % 16;
  ch.w = t.w + int64_t(ch.block) * t.kh * t.kw * mac_quads(cin) * 64 + ch.lane * 4;
  return ch;
}

// A tap between pixels adds x_zp * w, for the folded bias took x_zp * w off for every tap.
int32_t accumulate(const MacTask &t, const Channel &ch, int oy, int ox, int32_t bias) {
  const bool transposed = t.kind == MacKind::conv_transpose;
  const int tap_bytes = t.kind == MacKind::depthwise ? 16 : mac_quads(ch.count) * 64;
  int32_t acc = bias;
  for (int ky = 0; ky < t.kh; ++ky)
    for (int kx = 0; kx < t.kw; ++kx) {
      int iy = 0, ix = 0;
      const bool hit = source(transposed, oy, ky, t.sh, t.dh, t.pt, &iy) &&
                       source(transposed, ox, kx, t.sw, t.dw, t.pl, &ix);
      const int8_t *w = ch.w + int64_t(ky * t.kw + kx) * tap_bytes;
      for (int i = 0; i < ch.count; ++i)
        acc = mac_wrap_add(acc, (hit ? read(t, iy, ix, ch.first + i) : t.x_zp) * w[i / 4 * 64 + i % 4]);
    }
  return acc;
}
}  // namespace

void run_mac_portable(const MacTask &t) {
  for (int c = 0; c < t.on; ++c) {
    const Channel ch = channel(t, t.oc + c);
    const int32_t *params = t.params + ch.block * 64 + ch.lane;
    for (int y = 0; y < t.oh; ++y)
      for (int x = 0; x < t.ow; ++x)
        t.y[y * t.y_row + x * t.y_pixel + c] =
            mac_finish(t, accumulate(t, ch, t.oy + y, t.ox + x, params[0]), params[16], params[32]);
  }
}
}  // namespace axtool
