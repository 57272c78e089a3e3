// AVX-512 VNNI: vpdpbusd on x + 128 and the weights as stored (see mac_avx512_conv.h).
#include "mac_variants.h"

#if defined(__AVX512VNNI__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12's own header: _mm512_undefined_epi32
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>
#define AXTOOL_AVX512 1
#elif defined(AXTOOL_EMULATE_AVX512)  // a header given to the compiler defines the intrinsics in plain C++ (tests)
#define AXTOOL_AVX512 1
#endif

#ifdef AXTOOL_AVX512
#include "mac_avx2_depthwise.h"
#include "mac_avx512_conv.h"
#include "mac_avx512_depthwise.h"
#include "mac_depthwise.h"

namespace axtool {

size_t mac_scratch_avx512(const MacTask &t) {
  if (t.kind != MacKind::depthwise) return Avx512Conv(t, nullptr).scratch_bytes;
  if (Avx512Depthwise::suits(t)) return Avx512Depthwise(t, nullptr).scratch_bytes;
  return DepthwiseDriver<Avx2Depthwise>(t, nullptr).scratch_bytes;
}

void run_mac_avx512(const MacTask &t, void *scratch) {
  if (t.kind != MacKind::depthwise) return Avx512Conv(t, scratch).run();
  if (Avx512Depthwise::suits(t)) return Avx512Depthwise(t, scratch).run();
  DepthwiseDriver<Avx2Depthwise>(t, scratch).run();
}

bool mac_built_avx512() { return true; }
}  // namespace axtool
#else
namespace axtool {
size_t mac_scratch_avx512(const MacTask &) { return 64; }
void run_mac_avx512(const MacTask &t, void *) { run_mac_portable(t); }
bool mac_built_avx512() { return false; }
}  // namespace axtool
#endif
