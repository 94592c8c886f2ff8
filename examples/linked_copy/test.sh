#!/usr/bin/env bash
# Copies its own file, and one that is named; replaces nothing.
#
#   test.sh LINKED_COPY
set -euo pipefail
export LC_ALL=C LANG=C
copy=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$copy"
head -c 300000 /dev/urandom >"$work/from"
"$copy" "$work/from" "$work/to"
cmp "$work/from" "$work/to"

refused() { # STATUS TEXT ARGUMENT...
  local status=0
  "$copy" "${@:3}" >"$work/log" 2>&1 || status=$?
  [[ $status == "$1" && $(<"$work/log") == *"$2"* ]] || { echo "${*:3}: $status: $(<"$work/log")"; exit 1; }
}
refused 2 usage "$work/from"
refused 1 "/none: No such file or directory" "$work/none" "$work/other"
ln -s from "$work/link"
for there in to link; do
  refused 1 "/$there: File exists" "$work/from" "$work/$there"
done
[[ -L $work/link && ! -e $work/other ]]
