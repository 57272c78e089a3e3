// One entry for each instruction set. The files that define them hold nothing but stubs where the compiler's flags lack
// the instructions, so that all of them build everywhere.
#pragma once
#include "mac.h"

namespace axtool {

void run_mac_portable(const MacTask &task);

void run_mac_avx2(const MacTask &task, void *scratch);
size_t mac_scratch_avx2(const MacTask &task);
bool mac_built_avx2();
MacFrozen *mac_freeze_avx2(const MacTask &task, MacForm form);  // or null

void run_mac_avxvnni(const MacTask &task, void *scratch);
size_t mac_scratch_avxvnni(const MacTask &task);
bool mac_built_avxvnni();

void run_mac_avx512(const MacTask &task, void *scratch);
size_t mac_scratch_avx512(const MacTask &task);
bool mac_built_avx512();

void run_mac_neon(const MacTask &task, void *scratch);
size_t mac_scratch_neon(const MacTask &task);
bool mac_built_neon();
}  // namespace axtool
