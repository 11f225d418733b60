#!/usr/bin/env bash
# systemd's own opinion of the units: no complaint.
#   verify_units.sh FOLDER      exit 77: skipped, with the reason
set -euo pipefail
folder=$1
if ! command -v systemd-analyze >/dev/null; then
  echo "skipped: systemd-analyze is not here"
  exit 77
fi
copies=$(mktemp -d)
trap 'rm -r "$copies"' EXIT
failed=0
count=0
for unit in "$folder"/*.service; do
  count=$((count + 1))
  copy=$copies/$(basename "$unit")
  # The programs need not be installed for it.
  sed -E 's#^ExecStart=/usr/bin/deltafin(-node)? #ExecStart=/bin/true #' "$unit" >"$copy"
  grep -q '^ExecStart=/bin/true .*--config /etc/deltafin/' "$copy" || {
    echo "$unit: ExecStart names no installed program with --config"
    failed=1
  }
  complaints=$(systemd-analyze verify "$copy" 2>&1) || failed=1
  if [ -n "$complaints" ]; then
    echo "$complaints"
    failed=1
  fi
done
[ "$count" -eq 2 ] || { echo "expected two units in $folder, found $count"; failed=1; }
exit "$failed"
