#!/usr/bin/env bash
# The server of examples/file_server, asked by curl and by hand, on loopback.
#
#   test.sh SERVER
set -euo pipefail
export LC_ALL=C LANG=C
server=$1
work=$(mktemp -d)
pid=
trap '[[ -z $pid ]] || kill "$pid"; rm -rf "$work"' EXIT
command -v curl >/dev/null || { echo "no curl"; exit 77; }

mkdir "$work/root"
head -c 1000000 /dev/urandom >"$work/root/large"
echo "the index" >"$work/root/index.html"
echo "a name" >"$work/root/a name"
echo "secret" >"$work/root/.secret"
echo "secret" >"$work/outside"
: >"$work/root/empty"
: >"$work/out"
"$server" "$work/root" 127.0.0.1:0 >"$work/out" 2>&1 &
pid=$!
for ((i = 0; i != 100; ++i)); do
  if at=$(sed -n 's/^listening on //p' "$work/out") && [[ -n $at ]]; then break; fi
  sleep 0.05
done
[[ -n $at ]] || { cat "$work/out"; exit 1; }

failed=0
get() { # STATUS EXPECTED-FILE CURL-ARGUMENT...
  local status=$1 expected=$2 said
  shift 2
  said=$(curl -sS --max-time 20 --path-as-is -o "$work/got" -w '%{http_code}' "$@") || said="failed: $said"
  if [[ $said == "$status" ]] && cmp -s "$work/got" "$expected"; then return; fi
  echo "curl $*: $said, $(wc -c <"$work/got") bytes"
  failed=1
}
: >"$work/nothing"
: >"$work/got"
get 200 "$work/root/large" "http://$at/large"
get 200 "$work/root/index.html" "http://$at/"
get 200 "$work/root/a name" "http://$at/a%20name?x=y"
get 200 "$work/root/empty" "http://$at/empty"
for wrong in none .secret ../outside %2e%2e/outside ..%2foutside "a%00" "%2" "large/" "//.secret" \
  "x/../../outside" "$work/outside"; do
  get 404 "$work/nothing" "http://$at/$wrong"
done
head -c 30 "$work/root/large" | tail -c 20 >"$work/some"
get 206 "$work/some" -r 10-29 "http://$at/large"
tail -c 5 "$work/root/large" >"$work/some"
get 206 "$work/some" -r -5 "http://$at/large"
get 206 "$work/some" -r 999995- "http://$at/large"
get 206 "$work/some" -r 999995-18446744073709551615 "http://$at/large"
get 200 "$work/root/large" -r -2000000 "http://$at/large"
get 200 "$work/root/large" -r 5-2 "http://$at/large"
get 200 "$work/root/large" -r 0-18446744073709551616 "http://$at/large"
get 416 "$work/nothing" -r 1000000- "http://$at/large"
get 416 "$work/nothing" -r 0-5 "http://$at/empty"
tag=$(curl -sSI "http://$at/large" | sed -n 's/^ETag: \(.*\)\r$/\1/p')
day=$(curl -sSI "http://$at/large" | sed -n 's/^Last-Modified: \(.*\)\r$/\1/p')
get 304 "$work/nothing" -H "If-None-Match: $tag" "http://$at/large"
get 304 "$work/nothing" -H "If-Modified-Since: $day" "http://$at/large"
get 200 "$work/root/large" -H 'If-None-Match: "other"' -H "If-Modified-Since: $day" "http://$at/large"
get 206 "$work/some" -r -5 -H "If-Range: $tag" "http://$at/large"
get 200 "$work/root/large" -r -5 -H 'If-Range: "other"' "http://$at/large"
get 400 "$work/nothing" -d body "http://$at/large"
get 400 "$work/nothing" -X GET -d body "http://$at/large"
get 200 "$work/root/large" --http1.0 "http://$at/large"

# One connection carries several, also when they are asked for at once; a client that leaves harms nobody.
curl -sS --max-time 20 -v -o "$work/got" -o "$work/got2" "http://$at/large" "http://$at/" 2>"$work/log"
grep -qi 're-using existing connection' "$work/log" && cmp "$work/got2" "$work/root/index.html" || failed=1
ask() { # TEXT: all that is answered until the connection ends
  exec 5<>"/dev/tcp/${at%:*}/${at##*:}"
  printf '%b' "$1" >&5
  timeout 20 cat <&5 2>/dev/null || [[ $? == 1 ]] || failed=1
  exec 5>&-
}
two=$(ask 'GET / HTTP/1.1\r\nHost: x\r\n\r\nHEAD /large HTTP/1.1\r\nHost: x\r\nconnection:  close \r\n\r\n')
[[ $(grep -c '^HTTP/1.1 200' <<<"$two") == 2 && $two == *"the index"* && $two == *$'close\r\n\r' ]] ||
  { echo "pipelined: $two"; failed=1; }
for wrong in 'GET /\r\n\r\n' 'nonsense\r\n\r\n' '\r\n\r\n' 'GET / HTTP/2.0\r\n\r\n' \
  'GET / HTTP/1.1\r\na : b\r\n\r\n' \
  'GET / HTTP/1.1\r\na\r\n\r\n' 'GET / HTTP/1.1\r\n b: c\r\n\r\n' 'GET / HTTP/1.1\r\na: b\rc: d\r\n\r\n' \
  'GET / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length:\r\n\r\n' \
  'GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\n' 'GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n'; do
  said=$(ask "$wrong")
  [[ $said == "HTTP/1.1 400 "* ]] || { echo "asked $wrong: $said"; failed=1; }
done
exec 5<>"/dev/tcp/${at%:*}/${at##*:}"
printf 'GET /large HTTP/1.1\r\n\r\nGET /large HTTP/1.1\r\n\r\n' >&5
exec 5>&-
get 200 "$work/root/large" "http://$at/large"
refused() { # STATUS TEXT ARGUMENT...
  local status=$1 text=$2 said=0
  shift 2
  "$server" "$@" >"$work/log" 2>&1 || said=$?
  [[ $said == "$status" && $(<"$work/log") == *"$text"* ]] || { echo "$*: $said: $(<"$work/log")"; failed=1; }
}
refused 2 usage "$work/root"
refused 1 "/none: No such file or directory" /none 127.0.0.1:0
refused 1 "Address already in use" "$work/root" "$at"
refused 1 "nowhere" "$work/root" nowhere
exit "$failed"
