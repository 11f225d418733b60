#!/bin/sh
# usage: check_weak_symbols.sh NM OBJECT...
#
# Files of one kernel target are built for instructions that other machines do
# not have. A weak symbol in them (a template or inline function with external
# linkage) could be the copy that the linker keeps for the whole program, so
# none is allowed. Looks at objects under kernels/<target>/.
set -u
nm=$1
shift
seen=0
failed=0
for object in "$@"; do
  case $object in
    */avx2/* | */avx512/* | */neon/*) ;;
    *) continue ;;
  esac
  seen=$((seen + 1))
  weak=$("$nm" -C "$object" | grep -E '^[0-9a-f]+ [WVvu] ' |
    grep -v ' DW\.ref\.')  # references to data of the unwinder
  if [ -n "$weak" ]; then
    echo "weak symbols in $object:"
    echo "$weak"
    failed=1
  fi
done
if [ "$seen" -eq 0 ]; then
  echo "no object of a kernel target among $# objects"
  exit 1
fi
echo "$seen objects of kernel targets looked at"
exit $failed
