// Which variant runs, and how a box is cut for threads.
#include <initializer_list>

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include "mac_scalar.h"
#include "mac_variants.h"

namespace axtool {

// GCC's check of a CPU feature includes that the operating system saves its registers.
bool isa_available(Isa isa) {
  switch (isa) {
    case Isa::portable: return true;
#if defined(__x86_64__)
    case Isa::avx2: return mac_built_avx2() && __builtin_cpu_supports("avx2");
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

size_t mac_scratch_bytes(const MacTask &task, Isa isa) {
  switch (isa) {
    case Isa::avx2: return mac_scratch_avx2(task);
    case Isa::avx512vnni: return mac_scratch_avx512(task);
    case Isa::neon_dot: return mac_scratch_neon(task);
    default: return 64;
  }
}

void run_mac(const MacTask &task, Isa isa, void *scratch) {
  switch (isa) {
    case Isa::avx2: return run_mac_avx2(task, scratch);
    case Isa::avx512vnni: return run_mac_avx512(task, scratch);
    case Isa::neon_dot: return run_mac_neon(task, scratch);
    default: return run_mac_portable(task);
  }
}

MacPieces mac_pieces(const MacTask &task, Isa, int threads) {
  if (threads <= 1) return {task.oh, task.on};
  const bool whole_blocks = task.kind == MacKind::depthwise || task.group == 1 || task.out_c / task.group % 16 == 0;
  if (task.oh >= threads || !whole_blocks) return {(task.oh + threads - 1) / threads, task.on};
  const int blocks = mac_blocks(task.on);
  return {task.oh, mac_min(task.on, (blocks + threads - 1) / threads * 16)};
}
}  // namespace axtool
