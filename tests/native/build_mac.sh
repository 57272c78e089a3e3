#!/bin/sh
# build_mac.sh PROGRAM OUT [COMPILER]: compile tests/native/PROGRAM.cpp with the MAC kernels, each with its own flags.
set -e
here=$(cd "$(dirname "$0")" && pwd)
mac=$here/../../axtool/native/mac
cxx=${3:-g++}
flags="-std=c++17 -O3 -g1 -Wall -Wextra -ffp-contract=off"
objects=$(mktemp -d)
trap 'rm -rf "$objects"' EXIT
machine=$($cxx -dumpmachine)
for file in "$mac"/mac_*.cpp; do
  own=
  case $machine/$(basename "$file") in
    x86_64*/mac_avx2*) own=-mavx2 ;;
    x86_64*/mac_avx512*) own="-mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni" ;;
    aarch64*/mac_neon*) own=-march=armv8.2-a+dotprod ;;
  esac
  $cxx $flags $own -c "$file" -o "$objects/$(basename "$file").o"
done
$cxx $flags $EXTRA "$here/$1.cpp" "$objects"/*.o -o "$2"
