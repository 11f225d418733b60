#!/usr/bin/env bash
# Sets up and runs the main job: installs Debian packages, builds deltafin, and lets the embedded k3-nano model write.
#   deploy/try.sh [arguments of `deltafin run`]
set -euo pipefail
cd "$(dirname "$0")/.."

deploy/install_packages.sh build
cmake -S . -B build/try -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_UNITY_BUILD=ON \
  -DDELTAFIN_COMPONENTS=kernels,spine,node,coordinator \
  -DDELTAFIN_TESTS=OFF -DDELTAFIN_BENCH=OFF >/dev/null
cmake --build build/try --target deltafin deltafin-node

if [ $# -eq 0 ]; then
  set -- --prompt "It was a dark and stormy night, and" --bos --max-new-tokens 64
fi
exec build/try/coordinator/deltafin run "$@"
