"""Requests that no web server would hand on as they are: FastCGI straight to the socket of
`serve`, and CGI straight to the program. Both return a harness.Answer."""
import contextlib
import json
import os
import socket
import struct
import subprocess

from harness import CHAT, GROUP, MOUNT, USER, Answer

HELLO = {"messages": [{"role": "user", "content": "Why is the sea salt?"}]}
BEGIN, END, PARAMS, STDIN, STDOUT, STDERR = 1, 3, 4, 5, 6, 7
RESPONDER = 1
CONTENT_MAX = 65535


def parameters(method="POST", path=CHAT, body=HELLO, address="192.0.2.1", **more):
    """What a web server says of a request, and the body. `more` replaces; None takes away."""
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    every = {
        "GATEWAY_INTERFACE": "CGI/1.1", "SERVER_PROTOCOL": "HTTP/1.1", "SERVER_SOFTWARE": "tests",
        "SERVER_NAME": "localhost", "SERVER_PORT": "80", "SCRIPT_NAME": MOUNT, "PATH_INFO": path,
        "QUERY_STRING": "", "REQUEST_METHOD": method, "REMOTE_ADDR": address,
        "CONTENT_TYPE": "application/json", "CONTENT_LENGTH": str(len(body)), **more}
    return {name: value for name, value in every.items() if value is not None}, body


def answer_of(output):
    head, separator, body = output.partition(b"\r\n\r\n")
    assert separator, f"no header: {output!r}"
    headers = [(name.strip().lower(), value.strip())
               for name, _, value in (line.partition(":") for line in head.decode().split("\r\n"))]
    status, _, reason = dict(headers).get("status", "200 OK").partition(" ")
    return Answer(int(status), reason, headers, [(0, body)])


def record(kind, content):
    assert len(content) <= CONTENT_MAX
    return struct.pack("!BBHHBB", 1, kind, 1, len(content), 0, 0) + content


def stream(kind, content):
    parts = [content[at:at + CONTENT_MAX] for at in range(0, len(content), CONTENT_MAX)]
    return b"".join(record(kind, part) for part in [*parts, b""])


def pair(name, value):
    sizes = b"".join(bytes([n]) if n < 128 else struct.pack("!I", n | 1 << 31)
                     for n in (len(name), len(value)))
    return sizes + name + value


def pairs(items):
    return b"".join(pair(name.encode("latin-1"), value.encode("latin-1")) for name, value in items)


def fastcgi(place, method="POST", body=HELLO, twice=(), **options):
    """One request to `serve`. `twice`: further parameters, repeated ones too."""
    sent, body = parameters(method, body=body, **options)
    output = {STDOUT: b"", STDERR: b""}
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(30)
        peer.connect(str(place.socket))
        peer.sendall(record(BEGIN, struct.pack("!HB5x", RESPONDER, 0)) +
                     stream(PARAMS, pairs([*sent.items(), *twice])) + stream(STDIN, body))
        with peer.makefile("rb") as file:
            while True:
                header = file.read(8)
                assert len(header) == 8, "the answer has no end"
                _, kind, _, length, padding, _ = struct.unpack("!BBHHBB", header)
                content = file.read(length + padding)[:length]
                if kind == END:
                    return answer_of(output[STDOUT])
                output[kind] += content


def cgi_process(site, method="POST", body=HELLO, environment=(), **options):
    """A CGI process that has been given its whole request."""
    sent, body = parameters(method, body=body, **options)
    user = {} if os.geteuid() else {"user": USER, "group": GROUP, "extra_groups": []}
    process = subprocess.Popen(
        [site.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**site.environment(), "PENNYGATE_CONFIG": str(site.config), **dict(environment), **sent},
        **user)
    with contextlib.suppress(BrokenPipeError):  # it may answer without having read it
        process.stdin.write(body)
        process.stdin.flush()
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    process.stdin = None
    return process


def cgi(site, *arguments, **options):
    """One CGI request: its answer, and what it wrote to the log."""
    process = cgi_process(site, *arguments, **options)
    output, log = process.communicate(timeout=60)
    return answer_of(output), log.decode(errors="replace")
