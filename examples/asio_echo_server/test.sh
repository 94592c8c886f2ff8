#!/usr/bin/env bash
# Its own client; then the server, which runs out of descriptors and goes on once it has some.
#
#   test.sh SERVER
set -euo pipefail
export LC_ALL=C LANG=C
server=$1
work=$(mktemp -d)
pid=
trap '[[ -z $pid ]] || kill "$pid"; rm -rf "$work"' EXIT

"$server"
command -v python3 >/dev/null || { echo "no python3, which is the client"; exit 77; }
: >"$work/out"
(ulimit -n 30; exec "$server" 0 >"$work/out") &
pid=$!
for ((i = 0; i != 100; ++i)); do [[ ! -s $work/out ]] || break; sleep 0.05; done
python3 - "$(sed -n 's/^port //p' "$work/out")" <<'CLIENTS'
import socket, sys, time

there = ("::1", int(sys.argv[1]))
many = [socket.create_connection(there, 20) for _ in range(40)]
time.sleep(0.3)
for s in many:
    s.close()
s = socket.create_connection(there, 20)
s.sendall(b"hello")
assert s.recv(5) == b"hello"
CLIENTS
