# Answers of all kinds, for test.sh: server.py [CERTIFICATE KEY]. Prints its port, serves until it is ended.
import socket, ssl, sys, threading

page = b"".join(b"line %d\n" % i for i in range(20000))
chunks = b"".join(b"%x;e=1\r\n%s\r\n" % (len(page[i:i + 7777]), page[i:i + 7777]) for i in range(0, len(page), 7777))
ok = b"HTTP/1.1 200 OK\r\n"
answers = {
    "/length": ok + b"content-LENGTH: %d\r\n\r\n" % len(page) + page,
    "/chunks": b"HTTP/1.1 100 Continue\r\n\r\n" + ok + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n",
    "/close": b"HTTP/1.0 200 OK\r\n\r\n" + page,
    "/empty": ok + b"Content-Length: 0\r\n\r\n",
    "/there": b"HTTP/1.1 302 Found\r\nLocation: /chunks\r\n\r\n",
    "/round": b"HTTP/1.1 301 Moved\r\nLocation: /round\r\n\r\n",
    "/insecure": b"HTTP/1.1 301 Moved\r\nLocation: http://localhost/\r\n\r\n",
    "/elsewhere": b"HTTP/1.1 301 Moved\r\nLocation: ftp://localhost/\r\n\r\n",
    "/none": b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
    "/short": ok + b"Content-Length: %d\r\n\r\n" % (len(page) + 1) + page,
    "/short-chunk": ok + b"Transfer-Encoding: chunked\r\n\r\nff\r\nabc",
    "/long-chunk": ok + b"Transfer-Encoding: chunked\r\n\r\n2\r\nabcdef\r\n0\r\n\r\n",
    "/bad-chunk": ok + b"Transfer-Encoding: chunked\r\n\r\n0x2\r\nab\r\n0\r\n\r\n",
    "/huge-chunk": ok + b"Transfer-Encoding: chunked\r\n\r\n10000000000000002\r\nab\r\n0\r\n\r\n",
    "/bad-length": ok + b"Content-Length: +5\r\n\r\nhello",
    "/coding": ok + b"Transfer-Encoding: gzip\r\n\r\nhello",
    "/nonsense": b"hello\r\n\r\n",
    "/head": ok + b"a: b\r\n" * 20000,
    "/line": ok + b"a: " + b"b" * 20000 + b"\r\n\r\n",
    "/nothing": b"",
}


def serve(s, context):
    try:
        if context:
            s = context.wrap_socket(s, server_side=True)
        asked = b""
        while b"\r\n\r\n" not in asked:
            got = s.recv(4096)
            if not got:
                return
            asked += got
        s.sendall(answers.get(asked.split()[1].decode(), answers["/none"]))
        if context:
            s = s.unwrap()
        s.shutdown(socket.SHUT_WR)
        s.recv(1)
    except OSError:
        pass
    finally:
        s.close()


context = None
if len(sys.argv) > 1:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[1], sys.argv[2])
listening = socket.create_server(("127.0.0.1", 0))
answers["/host"] = b"HTTP/1.1 302 Found\r\nLocation: //localhost:%d/length\r\n\r\n" % listening.getsockname()[1]
with open("page", "wb") as f:
    f.write(page)
print(listening.getsockname()[1], flush=True)
while True:
    threading.Thread(target=serve, args=(listening.accept()[0], context), daemon=True).start()
