// The ops that are not MACs, one row of numbers at a time: the obvious loops.
#pragma once
#include "wide_scalar.h"

namespace axtool {
namespace {

void wide_add(const AddParams &p, int64_t n, const WideSource &a, const WideSource &b, const WideSink &y) {
  with_bytes(a.bytes, b.bytes, y.bytes, [&](auto of_a, auto of_b, auto of_y) {
    for (int64_t i = 0; i < n; ++i) {
      const int64_t other = wide_term(p.b, wide_load<of_b.value>(b.p, i * b.step));
      const int64_t total = wide_term(p.a, wide_load<of_a.value>(a.p, i * a.step)) + (p.sub ? -other : other);
      wide_store<of_y.value>(y.p, i, wide_clamp(((total + 32768) >> 16) + p.out_zp, p.lo, p.hi));
    }
  });
}

void wide_mul(const MulParams &p, int64_t n, const WideSource &a, const WideSource &b, const WideSink &y) {
  with_bytes(a.bytes, b.bytes, y.bytes, [&](auto of_a, auto of_b, auto of_y) {
    for (int64_t i = 0; i < n; ++i) {
      const int64_t left = wide_load<of_a.value>(a.p, i * a.step) - p.zp_a;
      const int64_t right = wide_load<of_b.value>(b.p, i * b.step) - p.zp_b;
      wide_store<of_y.value>(y.p, i, wide_clamp(wide_scale(left * right, p.m, p.f) + p.out_zp, p.lo, p.hi));
    }
  });
}

void wide_requantize(const WideRequant &p, int64_t n, const WideSource &x, const WideSink &y) {
  with_bytes(x.bytes, y.bytes, [&](auto of_x, auto of_y) {
    for (int64_t i = 0; i < n; ++i) {
      const int64_t v = wide_load<of_x.value>(x.p, i * x.step) - p.x_zp;
      wide_store<of_y.value>(y.p, i, wide_clamp(wide_scale(v, p.m, p.f) + p.out_zp, p.lo, p.hi));
    }
  });
}

void wide_lut(const int8_t *table, int32_t lo, int32_t hi, int64_t n, const WideSource &x, const WideSink &y) {
  with_bytes(x.bytes, y.bytes, [&](auto of_x, auto of_y) {
    for (int64_t i = 0; i < n; ++i) {
      const int32_t v = wide_load<of_x.value>(x.p, i * x.step);
      const int64_t q = of_x.value == 1 ? wide_load<2>(table, v + 128) : wide_interpolate<int32_t>(table, v);
      wide_store<of_y.value>(y.p, i, wide_clamp(q, lo, hi));
    }
  });
}

void wide_sum(int64_t n, const WideSource &x, int64_t *sums) {
  with_bytes(x.bytes, [&](auto of_x) {
    for (int64_t i = 0; i < n; ++i) sums[i] += wide_load<of_x.value>(x.p, i);
  });
}

void wide_finish(const WideRequant &p, int64_t n, const int64_t *sums, const WideSink &y) {
  with_bytes(y.bytes, [&](auto of_y) {
    for (int64_t i = 0; i < n; ++i)
      wide_store<of_y.value>(y.p, i, wide_clamp(wide_requantize(sums[i], p.m, p.f) + p.out_zp, p.lo, p.hi));
  });
}

}  // namespace
}  // namespace axtool
