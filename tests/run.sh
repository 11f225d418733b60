#!/usr/bin/env bash
# Sets up and passes the tests: installs Debian packages, checks the format, builds and tests under sanitizers and optimised.
#   tests/run.sh            everything but the long matrices
#   tests/run.sh --full     the long matrices, Clang, libFuzzer and the images too
#   tests/run.sh STAGE...   some of: format asan tsan release neon components clang fuzz images
set -euo pipefail
cd "$(dirname "$0")/.."

export CTEST_OUTPUT_ON_FAILURE=1
# Compiler results are shared between clones, wherever they lie.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
# What precompiled headers ask for (cmake/DeltafinTargets.cmake).
export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
jobs=$(nproc)
full=no
stages=()
for argument in "$@"; do
  case "$argument" in
    --full) full=yes ;;
    format|asan|tsan|release|neon|components|clang|fuzz|images) stages+=("$argument") ;;
    *) echo "usage: $0 [--full] [format] [asan] [tsan] [release] [neon] [components] [clang] [fuzz] [images]" >&2; exit 64 ;;
  esac
done
if [ ${#stages[@]} -eq 0 ]; then
  stages=(format release asan tsan neon components)
  [ "$full" = no ] || stages+=(clang fuzz images)
fi

started=$SECONDS
say() { printf '\n=== %s (%d s)\n' "$*" $((SECONDS - started)); }

# build PRESET TARGET...: configures and builds.
build() {
  local preset=$1
  shift
  say "$preset: build"
  cmake --preset "$preset" >/dev/null
  cmake --build --preset "$preset" -- -j"$jobs" "$@"
}

# check PRESET, its tests chosen by the remaining arguments of ctest.
check() {
  local preset=$1
  shift
  say "$preset: test"
  ctest --test-dir "build/$preset" -j"$jobs" --no-tests=error -E '_NOT_BUILT$' "$@"
}

stage_format() {
  say "format"
  git ls-files '*.cc' '*.h' '*.cu' '*.cuh' | xargs -r clang-format --dry-run --Werror
  # Tests of `release`, too; here they fail before anything is built.
  for rule in include_edges fuzz_coverage one_definition; do
    python3 "tests/architecture/$rule.py" .
  done
}

# The hash matrix over real processes, the kernels and the spine.
stage_release() {
  build release tests_numerics tests_programs
  # Programs wait for each other: more tests than cores fill them.
  check release -j$((jobs + (jobs + 1) / 2)) -LE 'long|base|threads|fuzz'
  if [ "$full" = yes ]; then
    build release
    check release -L 'long|base|threads'
  fi
}

# Every unit test, and the fuzz targets over their corpora.
stage_asan() {
  export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
  export UBSAN_OPTIONS=print_stacktrace=1
  build asan tests_numerics tests_base tests_threads tests_fuzz
  check asan -LE 'long|programs'
}

stage_tsan() {
  export TSAN_OPTIONS="suppressions=$PWD/tests/tsan.supp ignore_noninstrumented_modules=1 halt_on_error=1"
  build tsan tests_threads
  check tsan -L threads
}

stage_neon() {
  say "neon: cross build, run under emulation"
  tests/run_neon.sh
}

# What builds without gRPC, protobuf, RocksDB and curl.
stage_components() {
  build kernels tests_numerics tests_base
  check kernels -LE 'long|fuzz'
}

# Everything builds with Clang, too, and gives the same bits.
stage_clang() {
  build clang
  check clang -LE 'long|fuzz'
}

# libFuzzer from each target's corpus, DELTAFIN_FUZZ_SECONDS (20) a target.
stage_fuzz() {
  export DELTAFIN_FUZZ_SECONDS=${DELTAFIN_FUZZ_SECONDS:-20}
  export UBSAN_OPTIONS=print_stacktrace=1
  build fuzz tests_fuzz
  say "fuzz: test"
  # No second try: what is found once is a finding.
  ctest --test-dir build/fuzz -j"$jobs" --no-tests=error -L fuzz
}

# The Dockerfiles' steps in debootstrap folders.
stage_images() {
  say "images"
  mkdir -p build
  tests/deploy/images_test.py build || [ $? -eq 77 ]  # which it says itself
}

# Tests write to copies: what they leave in the sources, the next test reads.
sources_untouched() {
  local written
  written=$(find deploy/models tests/golden -type f -newer "$stamp")
  [ -z "$written" ] || { printf 'tests wrote into the sources:\n%s\n' "$written" >&2; exit 1; }
}

deploy/install_packages.sh test
stamp=$(mktemp)
trap 'rm -f "$stamp"' EXIT
for stage in "${stages[@]}"; do
  "stage_$stage"
done
sources_untouched
say "all stages passed: ${stages[*]}"
