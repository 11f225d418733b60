#!/usr/bin/env bash
# Copies what building kernels and spine with their tests needs from the Debian packages of this machine into a folder, for a machine
# without network or root:
#   deploy/collect_dependencies.sh DIR
#   cmake -DDELTAFIN_COMPONENTS=kernels,spine -DDELTAFIN_DEPS_DIR=DIR ...
# DIR is used where it lies: it may be copied and moved. The other machine needs the same processor architecture, a compiler, CMake, and a C
# library that is not older.
set -euo pipefail

if [ $# -ne 1 ] || [ "${1#-}" != "$1" ]; then
  echo "usage: $0 DIR" >&2
  exit 64
fi

packages=(
  libabsl20220623 libabsl-dev
  libssl3 libssl-dev
  libfmt9 libfmt-dev libspdlog1.10 libspdlog-dev
  libsimdjson14 libsimdjson-dev
  libxxhash0 libxxhash-dev nlohmann-json3-dev
  libgtest-dev libgmock-dev
)
for package in "${packages[@]}"; do
  if ! dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q '^install ok installed$'; then
    echo "$0: the package $package is not installed: run deploy/install_packages.sh first" >&2
    exit 69
  fi
done

mkdir -p "$1"
# Headers, libraries and CMake's descriptions of them; OpenSSL's static libraries are large and not used.
dpkg -L "${packages[@]}" | grep -E '^/usr/(include|lib|share/cmake)/' | grep -vE '/lib(crypto|ssl)\.a$|/engines-3/|/ossl-modules/' | sort -u |
  while IFS= read -r file; do
    if [ ! -d "$file" ] || [ -L "$file" ]; then
      printf '%s\n' "${file#/}"
    fi
  done | tar -C / -cf - --files-from=- | tar -C "$1" -xf - --no-same-owner
echo "$(du -sh "$1" | cut -f1) in $1"
