#!/bin/sh
# The engine's digests on this CPU, and the same program elsewhere: all lines must be equal.
#   run_digests.sh arm       aarch64 under qemu; needs g++-aarch64-linux-gnu and qemu-user
#   run_digests.sh haswell   this machine's program on an x86-64 CPU with AVX2 and no VNNI; needs qemu-user
#   run_digests.sh           both
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$root/build/digests
jobs=${JOBS:-2}

need() {
  command -v "$1" >/dev/null || { echo "run_digests.sh: $1 is not installed (Debian: $2)" >&2; exit 4; }
}

# build NAME [cmake option...]: prints nothing, leaves $build/NAME/digest
build() {
  name=$1
  shift
  cmake -S "$root/axtool/native" -B "$build/$name" -DAXTOOL_KERNELS_ONLY=ON "$@" >/dev/null
  cmake --build "$build/$name" --target digest -j "$jobs" >/dev/null
}

compare() {
  if cmp -s "$build/host.txt" "$build/$1.txt"; then
    echo "$1: the same digests as this CPU"
  else
    diff "$build/host.txt" "$build/$1.txt" >&2 || true
    echo "$1: different digests" >&2
    exit 1
  fi
}

arm() {
  need aarch64-linux-gnu-g++ g++-aarch64-linux-gnu
  need qemu-aarch64 qemu-user
  build arm -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++
  qemu-aarch64 -L /usr/aarch64-linux-gnu "$build/arm/digest" >"$build/arm.txt"
  compare arm
}

haswell() {
  need qemu-x86_64 qemu-user
  # what its emulation lacks has nothing to do with arithmetic, and qemu would say so for every thread
  lacking=-pcid,-x2apic,-tsc-deadline,-hle,-invpcid,-rtm
  qemu-x86_64 -cpu Haswell,$lacking "$build/host/digest" >"$build/haswell.txt"
  compare haswell
}

build host
"$build/host/digest" >"$build/host.txt"
case ${1:-both} in
  arm) arm ;;
  haswell) haswell ;;
  both) arm; haswell ;;
  *) echo "run_digests.sh: arm, haswell or nothing" >&2; exit 2 ;;
esac
