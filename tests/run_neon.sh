#!/bin/sh
# usage: tests/run_neon.sh [--full] [BUILD_DIR]
#
# Cross-compiles kernels/ and their tests for 64-bit ARM and runs them under
# user-mode emulation: once on a processor without the 8-bit dot product
# (target "neon") and once on one with it ("neon-dot"). The scalar definition
# runs on the second. --full adds the shapes of the full model. Needs
# g++-aarch64-linux-gnu, qemu-user and googletest.
set -eu
source_dir=$(cd "$(dirname "$0")/.." && pwd)
full=no
if [ "${1:-}" = --full ]; then
  full=yes
  shift
fi
build_dir=${1:-$source_dir/build/neon}

cmake -S "$source_dir" -B "$build_dir" -G Ninja \
  -DCMAKE_TOOLCHAIN_FILE="$source_dir/cmake/aarch64-linux-gnu.cmake" \
  -DCMAKE_BUILD_TYPE=Release -DDELTAFIN_COMPONENTS=kernels \
  -DDELTAFIN_BENCH=OFF >/dev/null
cmake --build "$build_dir"

tests_dir=$build_dir/tests/unit/kernels
run() { # CPU FILTER: every kernel test with the cases of some targets
  ran=0
  for test in "$tests_dir"/*_test; do
    case $test in
      */expert_full_size_test) [ "$full" = yes ] || continue ;;
    esac
    echo "== $(basename "$test") on $1"
    QEMU_CPU=$1 qemu-aarch64 "$test" --gtest_filter="$2" --gtest_brief=1
    ran=$((ran + 1))
  done
  [ "$ran" -gt 0 ] || { echo "no kernel test was built"; exit 1; }
}
run cortex-a72 '*/neon:KernelRegistryTest.*'
run max '-*/neon:*/avx2:*/avx512'
"$source_dir/tests/architecture/check_weak_symbols.sh" \
  aarch64-linux-gnu-nm $(find "$build_dir/kernels" -name '*.o')
for part in expert linear; do
  QEMU_CPU=max qemu-aarch64 "$tests_dir/${part}_dump" |
    python3 "$source_dir/tests/unit/kernels/${part}_exact_model.py"
done
echo "NEON targets passed"
