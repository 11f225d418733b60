#!/usr/bin/env bash
# Checks that the images install every Debian package whose libraries the programs load: verify_packages.sh INSTALL_SCRIPT PROGRAM...
# Exit 77 (skipped) where dpkg cannot tell.
set -euo pipefail

script=$1
shift
if ! command -v dpkg-query >/dev/null; then
  echo "skipped: no dpkg-query here"
  exit 77
fi

# What debian:12 has without asking.
essential=" libc6 libgcc-s1 libstdc++6 "
listed=" $(sed -n '/^run_packages=(/,/^)/p' "$script" | grep -v '[()]' | tr '\n' ' ') "
count=0
for program in "$@"; do
  for library in $(readelf -d "$program" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
    path=$(ldd "$program" | awk -v name="$library" '$1 == name {print $3}')
    [ -n "$path" ] || continue  # the loader itself
    package=$(dpkg-query --search "*${path#/usr}" | head -n 1 | cut -d: -f1)
    if [[ "$essential$listed" != *" $package "* ]]; then
      echo "$script: run_packages lacks $package, for $library of $program" >&2
      exit 1
    fi
    count=$((count + 1))
  done
done
if [ "$count" -eq 0 ]; then
  echo "no library found in: $*" >&2
  exit 1
fi
echo "$count libraries are of packages that the images install"
