#!/usr/bin/env bash
# Installs what building and testing deltafin needs on Debian 12. Does nothing where all of it is there.
#   deploy/install_packages.sh [build|test|bench]     build: to build and run; test (default): also what the tests use; bench: also fio, which
#                                                     bench/storage_tiers compares with where it is there
set -euo pipefail

build_packages=(
  g++ cmake ninja-build ccache mold pkg-config git ca-certificates python3
  libgrpc++-dev libgrpc-dev protobuf-compiler-grpc protobuf-compiler libprotobuf-dev
  libabsl-dev libboost1.81-dev libcli11-dev libcurl4-openssl-dev librocksdb-dev libsimdjson-dev libspdlog-dev libssl-dev
  libxxhash-dev nlohmann-json3-dev
)
test_packages=(
  libgtest-dev libgmock-dev googletest libtorch-dev libopenblas-dev
  clang libclang-rt-dev clang-format g++-aarch64-linux-gnu qemu-user
  python3-numpy python3-grpcio python3-protobuf iproute2 chromium curl debootstrap
)
bench_packages=(fio)
# Node.js runs the tests of the page and of clients. One that came from elsewhere is left alone.
command -v node >/dev/null || test_packages+=(nodejs npm)

case "${1:-test}" in
  build) packages=("${build_packages[@]}") ;;
  test) packages=("${build_packages[@]}" "${test_packages[@]}") ;;
  bench) packages=("${build_packages[@]}" "${test_packages[@]}" "${bench_packages[@]}") ;;
  *) echo "usage: $0 [build|test|bench]" >&2; exit 64 ;;
esac

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null || true)
  [ "$status" = "install ok installed" ] || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  as_root=(sudo)
fi
echo "Installing ${#missing[@]} Debian packages: ${missing[*]}" >&2
"${as_root[@]}" apt-get -o DPkg::Lock::Timeout=300 update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 \
  install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
