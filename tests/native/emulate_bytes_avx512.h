// bytes_avx512.cpp uses no instruction that AVX2 lacks: with this it is compiled for a CPU without AVX-512. Given to the
// compiler with -include, behind the headers that would take the macro at its word.
#pragma once
#include <immintrin.h>

#define __AVX512VL__ 1
