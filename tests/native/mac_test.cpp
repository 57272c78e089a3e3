// mac_test [cases] [first seed]: every available instruction set against the portable loops, on random tasks.
// Exit 1 and the task at the first difference. Cutting a box into the pieces of mac_pieces must change nothing either,
// nor freezing its weights and its table.
#include "mac_case.h"

using namespace axtool;

static bool testable(Isa isa) {
#ifdef AXTOOL_EMULATE_AVX512
  if (isa == Isa::avx512vnni || isa == Isa::avxvnni) return true;
#endif
  return isa_available(isa);
}

static std::vector<int8_t> run(const Case &c, Isa isa, const MacFrozen *frozen = nullptr,
                               const int8_t *values = nullptr) {
  MacTask t = c.t;
  t.frozen = frozen, t.values = values;
  Guarded y(c.y_bytes), scratch(mac_scratch_bytes(t, isa), 64);
  memset(y.data, 0x55, c.y_bytes);
  memset(scratch.data, 0x5a, mac_scratch_bytes(t, isa));
  t.y = reinterpret_cast<int8_t *>(y.data);
  run_mac(t, isa, scratch.data);
  return std::vector<int8_t>(y.data, y.data + c.y_bytes);
}

// The first block of a piece that begins at output channel c.
static int block_of(const MacTask &t, int c) {
  if (t.kind == MacKind::depthwise) return c / 16;
  const int cout = t.out_c / t.group;
  return c / cout * blocks_of(cout) + c % cout / 16;
}

static std::vector<int8_t> run_in_pieces(const Case &c, Isa isa, int threads, const MacFrozen *frozen = nullptr,
                                         const int8_t *values = nullptr) {
  const MacTask &t = c.t;
  Guarded y(c.y_bytes);
  memset(y.data, 0x55, c.y_bytes);
  const MacPieces size = mac_pieces(t, isa, threads);
  const int quads = t.kind == MacKind::depthwise ? 16 : (t.in_c / t.group + 3) / 4 * 64;
  for (int dy = 0; dy < t.oh; dy += size.rows)
    for (int dc = 0; dc < t.on; dc += size.channels) {
      MacTask p = t;
      p.frozen = frozen, p.values = values;
      p.oy += dy, p.oc += dc;
      p.oh = std::min(size.rows, t.oh - dy), p.on = std::min(size.channels, t.on - dc);
      p.y = reinterpret_cast<int8_t *>(y.data) + dy * t.y_row + dc;
      const int blocks = block_of(t, p.oc) - block_of(t, t.oc);
      p.w += int64_t(blocks) * t.kh * t.kw * quads, p.params += blocks * 64;
      Guarded scratch(mac_scratch_bytes(p, isa), 64);
      run_mac(p, isa, scratch.data);
    }
  return std::vector<int8_t>(y.data, y.data + c.y_bytes);
}

// Every form of frozen weights that there is for the task, each with and without a frozen table.
static bool frozen_too(const Case &c, Isa isa, int threads, const std::vector<int8_t> &want) {
  alignas(64) static int8_t listed[kMacValues];
  const int8_t *const none = nullptr;
  if (c.t.act) mac_list_values(c.t, listed);
  for (MacForm form : {MacForm::best, MacForm::packed, MacForm::winograd2, MacForm::winograd4}) {
    const MacFrozenPtr frozen = mac_freeze(c.t, isa, form);
    for (const int8_t *values : {none, c.t.act ? listed : none}) {
      if (!frozen && (form != MacForm::best || !values)) continue;
      if (run(c, isa, frozen.get(), values) != want) return false;
      if (run_in_pieces(c, isa, threads, frozen.get(), values) != want) return false;
    }
  }
  return true;
}

int main(int argc, char **argv) {
  const int cases = argc > 1 ? atoi(argv[1]) : 2000, first = argc > 2 ? atoi(argv[2]) : 1;
  for (int seed = first; seed < first + cases; ++seed) {
    Case *c = make_case(uint32_t(seed));
    if (getenv("MAC_TEST_VERBOSE")) printf("seed %d ", seed), describe(c->t), fflush(stdout);
    const std::vector<int8_t> want = run(*c, Isa::portable);
    for (Isa isa : {Isa::portable, Isa::avx2, Isa::avxvnni, Isa::avx512vnni, Isa::neon_dot}) {
      if (!testable(isa)) continue;
      const bool same = run(*c, isa) == want, pieces = run_in_pieces(*c, isa, 1 + seed % 4) == want;
      const bool still = frozen_too(*c, isa, 1 + seed % 4, want);
      if (same && pieces && still) continue;
      const char *how = !same ? "" : !pieces ? " in pieces" : " when frozen";
      printf("%s differs%s from portable, seed %d: ", isa_name(isa), how, seed);
      describe(c->t);
      return 1;
    }
    delete c;
  }
  printf("%d cases:", cases);
  for (Isa isa : {Isa::portable, Isa::avx2, Isa::avxvnni, Isa::avx512vnni, Isa::neon_dot})
    if (testable(isa)) printf(" %s", isa_name(isa));
  printf("\n");
}
