// Which variant runs, and how a box is cut for threads.
#include <cstdlib>
#include <initializer_list>
#include <new>

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "mac_frozen.h"
#include "mac_scalar.h"
#include "mac_variants.h"

namespace axtool {

#if defined(__x86_64__)
// GCC 12 has no name for it. Its registers are those of AVX2.
static bool supports_avxvnni() {
  unsigned a, b, c, d;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1);
}
#endif

// GCC's check of a CPU feature includes that the operating system saves its registers.
bool isa_available(Isa isa) {
  switch (isa) {
    case Isa::portable: return true;
#if defined(__x86_64__)
    case Isa::avx2: return mac_built_avx2() && __builtin_cpu_supports("avx2");
    case Isa::avxvnni: return mac_built_avxvnni() && __builtin_cpu_supports("avx2") && supports_avxvnni();
    case Isa::avx512vnni:
      return mac_built_avx512() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512vnni");
#elif defined(__aarch64__)
    case Isa::neon_dot: return mac_built_neon() && (getauxval(AT_HWCAP) & HWCAP_ASIMDDP);
#endif
    default: return false;
  }
}

Isa best_isa() {
  for (Isa isa : {Isa::avx512vnni, Isa::avxvnni, Isa::avx2, Isa::neon_dot})
    if (isa_available(isa)) return isa;
  return Isa::portable;
}

const char *isa_name(Isa isa) {
  switch (isa) {
    case Isa::avx2: return "avx2";
    case Isa::avxvnni: return "avxvnni";
    case Isa::avx512vnni: return "avx512vnni";
    case Isa::neon_dot: return "neon_dot";
    default: return "portable";
  }
}

size_t mac_scratch_bytes(const MacTask &task, Isa isa) {
  switch (isa) {
    case Isa::avx2: return mac_scratch_avx2(task);
    case Isa::avxvnni: return mac_scratch_avxvnni(task);
    case Isa::avx512vnni: return mac_scratch_avx512(task);
    case Isa::neon_dot: return mac_scratch_neon(task);
    default: return 64;
  }
}

void run_mac(const MacTask &task, Isa isa, void *scratch) {
  switch (isa) {
    case Isa::avx2: return run_mac_avx2(task, scratch);
    case Isa::avxvnni: return run_mac_avxvnni(task, scratch);
    case Isa::avx512vnni: return run_mac_avx512(task, scratch);
    case Isa::neon_dot: return run_mac_neon(task, scratch);
    default: return run_mac_portable(task);
  }
}

MacFrozen *mac_new_frozen(int oc, int steps, size_t room, int8_t **rest) {
  const size_t head = (sizeof(MacFrozen) + 63) / 64 * 64;
  const size_t table = (sizeof(MacFrozenSteps) * size_t(steps) + 63) / 64 * 64;
  char *memory = static_cast<char *>(aligned_alloc(64, head + table + (room + 63) / 64 * 64));
  if (!memory) throw std::bad_alloc();
  *rest = reinterpret_cast<int8_t *>(memory + head + table);
  return new (memory) MacFrozen{memory, 0, oc, reinterpret_cast<MacFrozenSteps *>(memory + head), nullptr, {}, {}};
}

void MacFree::operator()(MacFrozen *frozen) const { free(frozen->memory); }
size_t mac_frozen_bytes(const MacFrozen &frozen) { return frozen.bytes; }

MacFrozenPtr mac_freeze(const MacTask &task, Isa isa, MacForm form) {
  return MacFrozenPtr(isa == Isa::avx2 ? mac_freeze_avx2(task, form) : nullptr);
}

// Measured: of fewer outputs than this, interpolating is less work than bringing the table near.
bool mac_gains_by_values(const MacTask &t, Isa isa) {
  return (isa == Isa::avx2 || isa == Isa::avxvnni) && t.act == 1 && int64_t(t.oh) * t.ow * t.on >= 2048;
}

void mac_list_values(const MacTask &t, int8_t *values) {
  for (int v = -32768; v < 32768; ++v) values[uint16_t(v)] = mac_activate(t, v);
}

namespace {

bool is_vnni(Isa isa) { return isa == Isa::avxvnni || isa == Isa::avx512vnni; }

// About how many cycles the slowest of `threads` workers needs, when each gets `rows` x `channels` of the box. Counted
// besides the products: input copied for each piece anew, weights read and arranged for each piece anew.
double piece_cycles(const MacTask &t, Isa isa, int rows, int channels) {
  const bool depthwise = t.kind == MacKind::depthwise;
  const double inputs = depthwise ? 1 : double(t.in_c) / t.group, taps = double(t.kh) * t.kw;
  const double products = double(rows) * t.ow * mac_blocks(channels) * 16 * taps * inputs;
  const double copied = (double(rows) * t.sh + t.kh) * t.ow * t.sw * (depthwise ? channels : t.in_c);
  if (is_vnni(isa))  // and four a vector of 16 results; nothing is arranged, but weights come from afar
    return products / (depthwise ? 24 : 60) + double(rows) * t.ow * mac_blocks(channels) * 4 + copied * 0.06 +
           channels * taps * inputs * 0.05;
  const bool winograd = mac_row_unit(t) > 1;
  const double per_cycle = depthwise ? 5 : winograd ? 50 : 24;
  return products / per_cycle + copied * (winograd ? 0.5 : 0.15) + channels * taps * inputs * 0.2;
}
}  // namespace

// Winograd's tiles are four rows high, of few rows two.
int mac_row_unit(const MacTask &t) {
  const bool plain = t.sh == 1 && t.sw == 1 && t.dh == 1 && t.dw == 1;
  const bool winograd = t.kind == MacKind::conv && t.kh == 3 && t.kw == 3 && plain;
  return !winograd || t.oh < 4 ? 1 : t.oh < 12 ? 2 : 4;
}

MacPieces mac_pieces(const MacTask &task, Isa isa, int threads) {
  const MacPieces whole = {task.oh, task.on};
  constexpr double kWorthAThread = 20000, kLong = 2e6;  // cycles
  const double all = piece_cycles(task, isa, task.oh, task.on);
  if (threads <= 1 || all < kWorthAThread) return whole;
  // long boxes in twice as many pieces: a worker that was held up then holds up the others less
  const int unit = is_vnni(isa) ? 1 : mac_row_unit(task), units = (task.oh + unit - 1) / unit;
  const int parts = all > kLong && units >= 8 * threads ? 2 * threads : threads;
  const int rows = (units + parts - 1) / parts * unit;
  const int channel_unit = isa == Isa::avx512vnni ? 32 : 16;
  const int channel_units = (task.on + channel_unit - 1) / channel_unit;
  const int channels = mac_min(task.on, (channel_units + parts - 1) / parts * channel_unit);
  const bool by_channels = task.kind == MacKind::depthwise || task.group == 1 || task.out_c / task.group % 16 == 0;
  // the slowest worker has this many pieces
  const int row_turns = ((task.oh + rows - 1) / rows + threads - 1) / threads;
  const int channel_turns = ((task.on + channels - 1) / channels + threads - 1) / threads;
  const double by_rows_cycles = row_turns * piece_cycles(task, isa, rows, task.on);
  const double by_channels_cycles = channel_turns * piece_cycles(task, isa, task.oh, channels);
  if (by_channels && by_channels_cycles < by_rows_cycles) return {task.oh, channels};
  return by_rows_cycles < all ? MacPieces{rows, task.on} : whole;
}
}  // namespace axtool
