#!/bin/sh
# build_mac.sh PROGRAM OUT [COMPILER]: compile tests/native/PROGRAM.cpp with the MAC kernels, each with its own flags.
# OPT: the optimisation, -O3 if not given. EMULATE_AVX512=1: the AVX-512 kernels on intrinsics in plain C++
# (emulate_avx512.h).
set -e
here=$(cd "$(dirname "$0")" && pwd)
mac=$here/../../axtool/native/mac
cxx=${3:-g++}
flags="-std=c++17 ${OPT:--O3} -g1 -Wall -Wextra -ffp-contract=off"
if [ -n "$EMULATE_AVX512" ]; then
  emulate="-include $here/emulate_avx512.h"
fi
objects=$(mktemp -d)
trap 'rm -rf "$objects"' EXIT
machine=$($cxx -dumpmachine)
for file in "$mac"/mac_*.cpp; do
  own=
  case $machine/$(basename "$file") in
    x86_64*/mac_avx2*) own=-mavx2 ;;
    x86_64*/mac_avxvnni*)
      own="-mavx2 -mavxvnni"
      $cxx $own -E -x c++ /dev/null >/dev/null 2>&1 || own=
      [ -z "$emulate" ] || own="-mavx2 $emulate" ;;
    x86_64*/mac_avx512*)
      own="-mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni"
      [ -z "$emulate" ] || own="-mavx2 $emulate" ;;
    aarch64*/mac_neon*) own=-march=armv8.2-a+dotprod ;;
  esac
  $cxx $flags $own -c "$file" -o "$objects/$(basename "$file").o"
done
$cxx $flags ${emulate:+-DAXTOOL_EMULATE_AVX512} "$here/$1.cpp" "$objects"/*.o -o "$2"
