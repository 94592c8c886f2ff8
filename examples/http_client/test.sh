#!/usr/bin/env bash
# The client of examples/http_client against server.py, on loopback, with TLS and without.
#
#   test.sh CLIENT
set -euo pipefail
export LC_ALL=C LANG=C
client=$1
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
for program in python3 openssl; do command -v "$program" >/dev/null || { echo "no $program"; exit 77; }; done
work=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null; rm -rf "$work"' EXIT
cd "$work"
openssl req -x509 -newkey ed25519 -nodes -subj /CN=localhost -addext subjectAltName=DNS:localhost \
  -keyout key.pem -out certificate.pem 2>log || { cat log; exit 1; }

serve() { # FILE ARGUMENT...: its port is in FILE
  : >"$1"
  python3 "$here/server.py" "${@:2}" >"$1" 2>>log &
  pids+=($!)
  for ((i = 0; i != 200; ++i)); do [[ ! -s $1 ]] || return 0; sleep 0.05; done
  cat log
  exit 1
}
serve plain
serve secure certificate.pem key.pem
plain=http://localhost:$(<plain) secure=https://localhost:$(<secure)
failed=0
gets() { # FILE URL
  if timeout 60 "$client" "$2" certificate.pem >got 2>said && cmp -s got "$1"; then return; fi
  echo "$2: $(wc -c <got) bytes, $(<said)"
  failed=1
}
refuses() { # TEXT ARGUMENT...
  local status=0
  timeout 60 "$client" "${@:2}" >got 2>said || status=$?
  if [[ $status == 1 && $(wc -l <said) == 1 && $(<said) == *"$1"* ]]; then return; fi
  echo "${*:2}: status $status, not '$1': $(<said)"
  failed=1
}
: >nothing
for at in "$plain" "$secure"; do
  for path in length chunks close there host 'length#part'; do gets page "$at/$path"; done
  gets nothing "$at/empty"
  refuses "404 Not Found" "$at/none" certificate.pem
  refuses "404 Not Found" "$at" certificate.pem
  refuses "shorter than it should be" "$at/short" certificate.pem
  refuses "shorter than it should be" "$at/short-chunk" certificate.pem
  refuses "chunk that is too long" "$at/long-chunk" certificate.pem
  refuses "chunk without a length" "$at/bad-chunk" certificate.pem
  refuses "chunk without a length" "$at/huge-chunk" certificate.pem
  refuses "a length that is none" "$at/bad-length" certificate.pem
  refuses "unknown coding: gzip" "$at/coding" certificate.pem
  refuses "no HTTP" "$at/nonsense" certificate.pem
  refuses "nothing but its head" "$at/head" certificate.pem
  refuses "reading: " "$at/line" certificate.pem
  refuses "reading: " "$at/nothing" certificate.pem
  refuses "leads elsewhere" "$at/round" certificate.pem
  refuses "'ftp://localhost/' is no address" "$at/elsewhere" certificate.pem
done
refuses "is not secure" "$secure/insecure" certificate.pem
refuses "self-signed certificate" "$secure/length"
refuses "IP address mismatch" "https://127.0.0.1:$(<secure)/length" certificate.pem
refuses "is no address" "example.org"
refuses "is no address" "http://localhost/a b"
refuses "Connection refused" "http://localhost:1/"
refuses "/none" "$secure/" /none
status=0
timeout 60 "$client" "$plain/length" >/dev/full 2>said || status=$?
[[ $status == 1 && $(<said) == "the standard output is full" ]] ||
  { echo "a full standard output: $(<said)"; failed=1; }
exit "$failed"
