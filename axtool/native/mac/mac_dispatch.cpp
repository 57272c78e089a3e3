// Which variant runs, and how a box is cut for threads.
#include <initializer_list>

#include "mac_scalar.h"
#include "mac_variants.h"

namespace axtool {

bool isa_available(Isa isa) { return isa == Isa::portable; }

Isa best_isa() {
  for (Isa isa : {Isa::avx512vnni, Isa::avx2, Isa::neon_dot})
    if (isa_available(isa)) return isa;
  return Isa::portable;
}

const char *isa_name(Isa isa) {
  switch (isa) {
    case Isa::avx2: return "avx2";
    case Isa::avx512vnni: return "avx512vnni";
    case Isa::neon_dot: return "neon_dot";
    default: return "portable";
  }
}

size_t mac_scratch_bytes(const MacTask &, Isa) { return 64; }

void run_mac(const MacTask &task, Isa, void *) { run_mac_portable(task); }

MacPieces mac_pieces(const MacTask &task, Isa, int threads) {
  if (threads <= 1) return {task.oh, task.on};
  const bool whole_blocks = task.kind == MacKind::depthwise || task.group == 1 || task.out_c / task.group % 16 == 0;
  if (task.oh >= threads || !whole_blocks) return {(task.oh + threads - 1) / threads, task.on};
  const int blocks = mac_blocks(task.on);
  return {task.oh, mac_min(task.on, (blocks + threads - 1) / threads * 16)};
}
}  // namespace axtool
