#!/usr/bin/env bash
# Sets up and passes the tests: installs Debian packages, checks the format, builds and tests under sanitizers and optimised.
#   tests/run.sh            everything but the long matrices
#   tests/run.sh --full     the long matrices too
#   tests/run.sh STAGE...   some of: format asan tsan release neon components
set -euo pipefail
cd "$(dirname "$0")/.."

export CTEST_OUTPUT_ON_FAILURE=1
jobs=$(nproc)
full=no
stages=()
for argument in "$@"; do
  case "$argument" in
    --full) full=yes ;;
    format|asan|tsan|release|neon|components) stages+=("$argument") ;;
    *) echo "usage: $0 [--full] [format] [asan] [tsan] [release] [neon] [components]" >&2; exit 64 ;;
  esac
done
[ ${#stages[@]} -gt 0 ] || stages=(format release asan tsan neon components)

started=$SECONDS
say() { printf '\n=== %s (%d s)\n' "$*" $((SECONDS - started)); }

# configure PRESET, build it, run its tests with the remaining arguments of ctest.
check() {
  local preset=$1
  shift
  say "$preset: configure and build"
  cmake --preset "$preset" >/dev/null
  cmake --build --preset "$preset" -- -j"$jobs"
  say "$preset: test"
  ctest --test-dir "build/$preset" -j"$jobs" "$@"
}

stage_format() {
  say "format"
  git ls-files '*.cc' '*.h' | xargs -r clang-format --dry-run --Werror
}

stage_release() {
  if [ "$full" = yes ]; then check release; else check release -LE long; fi
}

stage_asan() {
  export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
  export UBSAN_OPTIONS=print_stacktrace=1
  check asan -LE 'long|release_only'
}

stage_tsan() {
  export TSAN_OPTIONS="suppressions=$PWD/tests/tsan.supp ignore_noninstrumented_modules=1 halt_on_error=1"
  check tsan -L threads -LE long
}

stage_neon() {
  say "neon: cross build, run under emulation"
  tests/run_neon.sh
}

# What builds without gRPC, protobuf, RocksDB and curl.
stage_components() {
  check kernels -LE long
}

deploy/install_packages.sh test
for stage in "${stages[@]}"; do
  "stage_$stage"
done
say "all stages passed: ${stages[*]}"
