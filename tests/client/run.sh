#!/bin/sh
# Runs the tests of clients in a folder of the build: run.sh BUILD_FOLDER [TEST...]
# The environment names the programs: DELTAFIN, SCRIPTED_SERVER, and their MODEL_DIR.
# Exits with 77 (skipped) where Node.js or its packages cannot be had.
set -eu
source_dir=$(cd "$(dirname "$0")" && pwd)
folder=$1
shift
if ! command -v node > /dev/null || ! command -v npm > /dev/null; then
  echo "skipped: needs node and npm (Debian packages nodejs and npm)"
  exit 77
fi
mkdir -p "$folder"
cp "$source_dir"/package.json "$source_dir"/package-lock.json "$source_dir"/*.mjs "$folder"
cd "$folder"
if ! cmp -s package-lock.json node_modules/.installed; then
  if ! npm ci --ignore-scripts --prefer-offline --no-audit --no-fund; then
    echo "skipped: npm could not fetch the packages of package-lock.json"
    exit 77
  fi
  cp package-lock.json node_modules/.installed
fi
exec node --test "$@"
