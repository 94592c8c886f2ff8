#!/usr/bin/env bash
# The server, and two clients at once, one of which is silent.
#
#   test.sh SERVER
set -euo pipefail
export LC_ALL=C LANG=C
server=$1
work=$(mktemp -d)
pid=
trap '[[ -z $pid ]] || kill "$pid"; rm -rf "$work"' EXIT

command -v python3 >/dev/null || { echo "no python3, which is the client"; exit 77; }
"$server" "unix:$work/echo" &
pid=$!
python3 - "$work/echo" <<'CLIENTS'
import socket, sys, time

def connected():
    for _ in range(200):
        try:
            s = socket.socket(socket.AF_UNIX)
            s.connect(sys.argv[1])
            return s
        except OSError:
            time.sleep(0.05)
    sys.exit("it does not listen")

silent, speaker = connected(), connected()
for line in (b"one", b"two", b"three"):
    speaker.sendall(line)
    got = b""
    while len(got) < len(line):
        got += speaker.recv(100)
    print(got.decode())
    assert got == line
speaker.shutdown(socket.SHUT_WR)
assert speaker.recv(1) == b""
CLIENTS
