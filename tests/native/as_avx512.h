// bytes_avx512.cpp and labels_avx512.cpp use no instruction that AVX2 lacks: with this they are compiled for a CPU without
// AVX-512. Given to the compiler with -include, behind the headers that would take the macros at their word.
#pragma once
#include <immintrin.h>

#define __AVX512VL__ 1
#define __AVX512BW__ 1
