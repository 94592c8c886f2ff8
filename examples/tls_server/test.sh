#!/usr/bin/env bash
# The client of examples/tls_client against the server of examples/tls_server, on loopback.
#
#   test.sh SERVER CLIENT
set -euo pipefail
export LC_ALL=C LANG=C
server=$1 client=$2
work=$(mktemp -d)
pid=
trap '[[ -z $pid ]] || kill "$pid"; rm -rf "$work"' EXIT

command -v openssl >/dev/null || { echo "no openssl, which makes the certificate"; exit 77; }
openssl req -x509 -newkey ed25519 -nodes -subj /CN=localhost -addext subjectAltName=DNS:localhost \
  -keyout "$work/key.pem" -out "$work/certificate.pem" 2>"$work/log" || { cat "$work/log"; exit 1; }
: >"$work/server"
"$server" 127.0.0.1:0 "$work/certificate.pem" "$work/key.pem" >"$work/server" 2>&1 &
pid=$!
for ((i = 0; i != 100; ++i)); do
  if at=$(sed -n 's/^listening on //p' "$work/server") && [[ -n $at ]]; then break; fi
  sleep 0.05
done
[[ -n $at ]] || { cat "$work/server"; exit 1; }

port=${at##*:}
page=$("$client" "localhost:$port" "$work/certificate.pem")
echo "$page"
grep -q '^You speak TLS_' <<<"$page"
if said=$("$client" "localhost:$port" "$work/certificate.pem" 2>&1 >/dev/full); then exit 1; fi
[[ $said == "the standard output is full" ]]

# A name that the certificate does not bear, roots that it does not lead to, a server that is none.
refused() { # what it says, arguments...
  local says=$1 said
  shift
  if said=$("$client" "$@" 2>&1) || ! grep -qF "$says" <<<"$said"; then
    echo "expected '$says': $said"
    exit 1
  fi
}
refused "'127.0.0.1': its certificate was refused: IP address mismatch (CN=localhost)" \
  "127.0.0.1:$port" "$work/certificate.pem"
refused "'localhost': its certificate was refused: self-signed certificate (CN=localhost)" "localhost:$port"
refused "root certificates '/nonexistent': No such file or directory" "localhost:$port" /nonexistent
refused ":1: Connection refused" localhost:1
if said=$("$server" 127.0.0.1:0 "$work/key.pem" "$work/key.pem" 2>&1); then exit 1; fi
grep -qF "certificate '$work/key.pem': no start line" <<<"$said"
