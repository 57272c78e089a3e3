#include "mac_variants.h"
namespace axtool {
size_t mac_scratch_neon(const MacTask &) { return 64; }
void run_mac_neon(const MacTask &t, void *) { run_mac_portable(t); }
bool mac_built_neon() { return false; }
}  // namespace axtool
