// One output box of one MAC layer, and the call that computes it.
//
// Meaning: axtool/ops/reference (conv, depthwise, conv_transpose); layouts of weights, params and table as there.
// The caller has checked that the view covers what the box needs; pixels outside the tensor read as x_zp.
// bias has -x_zp * sum(w) folded in over all taps, so a tap of a transposed convolution that falls between input pixels
// counts as x_zp too.
//
// Build: compile every mac_*.cpp with -O3 -ffp-contract=off; on x86 add -mavx2 to mac_avx2*.cpp,
// -mavx2 -mavxvnni to mac_avxvnni.cpp and
// -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni to mac_avx512*.cpp, on aarch64 -march=armv8.2-a+dotprod to
// mac_neon*.cpp. A file whose flags are missing compiles to "not available".
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

namespace axtool {

enum class MacKind : int { conv, depthwise, conv_transpose };
enum class Isa : int { portable, avx2, avxvnni, avx512vnni, neon_dot };

struct MacFrozen;

struct MacTask {
  MacKind kind;
  // input tensor dims, and the view of it: x addresses element (view_y, view_x, 0) of the tensor
  int in_h, in_w, in_c;
  const int8_t *x;
  int64_t x_row, x_pixel;              // strides in bytes
  int view_y, view_x, view_h, view_w;  // the part of the tensor that may be read
  // the layer
  int kh, kw, sh, sw, dh, dw, pt, pl, group;
  int x_zp, out_zp, lo, hi, act;
  int out_c;                           // channels of the whole output tensor
  const int8_t *w;                     // first weight block of channel out_c0 (conv: blocks of 16 channels of a group)
  const int32_t *params;               // [block][4][16]: bias, mantissa, f, wsum; first block of channel out_c0
  const int16_t *table;                // 1025 entries when act == 1
  // the output box; y addresses its first element
  int oy, ox, oc, oh, ow, on;          // oc is a multiple of 16 inside its group (depthwise: of 16)
  int8_t *y;
  int64_t y_row, y_pixel;
  const MacFrozen *frozen;             // of a box that this one is a part of, or null
  const int8_t *values;                // of act 1, as mac_list_values makes them, or null
};

// Bytes of scratch memory (64-byte aligned) that run_mac wants for this task on this ISA.
size_t mac_scratch_bytes(const MacTask &task, Isa isa);

// Compute the box on one thread. Same bits on every ISA.
void run_mac(const MacTask &task, Isa isa, void *scratch);

// The weights of a box's channels, arranged once for all later boxes of the same layer and channels, which name them in
// `frozen` and then read the weights there. Needs of the task all but x and y. Null where there is no such form; the
// best may be none.
enum class MacForm : int { best, packed, winograd2, winograd4 };
struct MacFree { void operator()(MacFrozen *frozen) const; };
using MacFrozenPtr = std::unique_ptr<MacFrozen, MacFree>;
MacFrozenPtr mac_freeze(const MacTask &task, Isa isa, MacForm form = MacForm::best);
size_t mac_frozen_bytes(const MacFrozen &frozen);

// The byte that act 1 with this task's table and limits makes of every int16, by its 16 bits, for all boxes that name them
// in `values`. Where nothing is gained by that, they are better left out.
constexpr size_t kMacValues = 65536;
bool mac_gains_by_values(const MacTask &task, Isa isa);
void mac_list_values(const MacTask &task, int8_t *values);  // aligned to 64

// How a box should be cut for `threads` workers: rows of a piece, channels of a piece (a multiple of 16, or on).
struct MacPieces { int rows, channels; };
int mac_row_unit(const MacTask &task);  // rows that are computed together: a piece should be of whole ones
MacPieces mac_pieces(const MacTask &task, Isa isa, int threads);

Isa best_isa();                        // of this CPU
bool isa_available(Isa isa);
const char *isa_name(Isa isa);
}  // namespace axtool
