#include "mac_variants.h"
namespace axtool {
size_t mac_scratch_avx512(const MacTask &) { return 64; }
void run_mac_avx512(const MacTask &t, void *) { run_mac_portable(t); }
bool mac_built_avx512() { return false; }
}  // namespace axtool
