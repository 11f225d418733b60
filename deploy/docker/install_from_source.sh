#!/usr/bin/env bash
# Builds deltafin from the sources around this script and installs it, on a bare Debian 12: what the images' first stage runs.
#   deploy/docker/install_from_source.sh build PREFIX     packages, build, cmake --install into PREFIX (as DESTDIR, under /usr)
#   deploy/docker/install_from_source.sh run              the packages that the programs need to run
set -euo pipefail
cd "$(dirname "$0")/../.."

# The shared libraries of Debian 12 that `ldd` names for both programs.
run_packages=(
  libgrpc++1.51 libgrpc29 libprotobuf32 libabsl20220623 libspdlog1.10 libfmt9 libsimdjson14
  ca-certificates libcurl4 librocksdb7.8 libssl3 libxxhash0
)

case "${1:-}" in
  build)
    destination=${2:?"usage: $0 build PREFIX"}
    deploy/install_packages.sh build
    cmake -S . -B build/image -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_UNITY_BUILD=ON -DCMAKE_INSTALL_PREFIX=/usr \
      -DDELTAFIN_COMPONENTS=kernels,spine,node,coordinator -DDELTAFIN_TESTS=OFF -DDELTAFIN_BENCH=OFF
    cmake --build build/image
    DESTDIR=$destination cmake --install build/image --strip
    ;;
  run)
    apt-get -o DPkg::Lock::Timeout=300 update -qq
    DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends \
      "${run_packages[@]}" >/dev/null
    rm -rf /var/lib/apt/lists/*
    ;;
  *)
    echo "usage: $0 build PREFIX | run" >&2
    exit 64
    ;;
esac
