"""A stand-in for OpenWrt's uhttpd and its CGI, which Debian does not have. It hands over and kills as
was measured of uhttpd of 2026:

- of the request's headers only HEADERS arrive, the first of each name, besides CONTENT_TYPE and
  CONTENT_LENGTH; of its own environment nothing does but PATH
- PATH_INFO is decoded and otherwise as it was written; SCRIPT_NAME is the program's path
- a status counts only as `Status: NNN reason`, in this case and with a reason; anything else is 200
- the answer is sent in chunks as it comes; Content-Length stays beside them
- a caller who closes, or only stops sending, has the program killed by SIGKILL
- so has script_timeout, whatever has been sent, and the chunks end as if they were all
- max_requests programs run at a time, the next request waits
- a header of 7 KB is 413, more than 8 KB of them 431

usage: uhttpd.py CONFIGURATION PORT [NAME:PASSWORD ...]   (the first section is read)
"""
import base64
import os
import pathlib
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.parse

HEADERS = ("accept", "accept-charset", "accept-encoding", "accept-language", "authorization", "connection",
           "cookie", "host", "http-auth-user", "http-auth-pass", "origin", "referer", "user-agent",
           "x-http-method-override")
LINE_MAX, HEAD_MAX = 7168, 8192
REASONS = {400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found",
           413: "Request Entity Too Large", 431: "Request Header Fields Too Large", 502: "Bad Gateway",
           504: "Gateway Timeout"}


def options_of(path):
    text = pathlib.Path(path).read_text(encoding="utf-8").partition("config uhttpd")[2].partition("\nconfig ")[0]
    return dict(re.findall(r"^\s*option (\S+) '([^']*)'", text, re.M))


class Refused(Exception):
    """The request is answered here; the text is the status."""


class Connection:
    """One request and its program."""

    def __init__(self, server, client, peer):
        self.server, self.client, self.peer = server, client, peer
        self.program = None
        self.ahead = b""  # read from the client and not yet used
        self.head = b""  # of the program's answer, until it is whole
        self.head_sent = self.chunked = False

    # ---- the request ----

    def read_head(self):
        while b"\r\n\r\n" not in self.ahead:
            if len(self.ahead) > 16 * HEAD_MAX:
                raise Refused(431)
            data = self.client.recv(65536)
            if not data:
                raise ConnectionError
            self.ahead += data
        head, self.ahead = self.ahead.split(b"\r\n\r\n", 1)
        first, *lines = head.decode("latin-1").split("\r\n")
        if any(len(line) > LINE_MAX for line in lines):
            raise Refused(413)
        if len(head) > HEAD_MAX:
            raise Refused(431)
        words = first.split(" ")
        if len(words) != 3:
            raise Refused(400)
        self.method, self.url, self.version = words
        self.headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            self.headers.setdefault(name.strip().lower(), value.strip())
        if self.headers.get("expect", "").lower() == "100-continue":
            self.client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")

    def find(self):
        """The program's path below home, and PATH_INFO (None if there is none)."""
        path = urllib.parse.unquote(self.url.partition("?")[0], "latin-1")
        prefix = self.server.options["cgi_prefix"]
        home = pathlib.Path(self.server.options["home"])
        if "\0" in path or not path.startswith(prefix + "/"):
            raise Refused(404)
        name, slash, rest = path[len(prefix) + 1:].partition("/")
        file = home / prefix.strip("/") / name
        if name in ("", ".", "..") or not file.is_file():
            raise Refused(404)
        if not file.stat().st_mode & 1:
            raise Refused(403)
        return file, f"{prefix}/{name}", slash + rest if slash else None

    def user(self):
        """Who has shown a password, where some are configured; others are sent away."""
        if not self.server.users:
            return None
        kind, _, word = self.headers.get("authorization", "").partition(" ")
        shown = base64.b64decode(word + "==").decode("latin-1") if kind == "Basic" else ""
        if shown not in self.server.users:
            raise Refused(401)
        return shown.partition(":")[0]

    def environment(self, file, script, info):
        made = {
            "PATH": "/sbin:/usr/sbin:/bin:/usr/bin", "GATEWAY_INTERFACE": "CGI/1.1", "SERVER_SOFTWARE": "uhttpd",
            "SCRIPT_NAME": script, "SCRIPT_FILENAME": str(file), "DOCUMENT_ROOT": self.server.options["home"],
            "QUERY_STRING": self.url.partition("?")[2], "REQUEST_URI": self.url, "REDIRECT_STATUS": "200",
            "SERVER_PROTOCOL": self.version, "REQUEST_METHOD": self.method, "PATH_INFO": info,
            "REMOTE_USER": self.user(), "SERVER_NAME": "127.0.0.1", "SERVER_ADDR": "127.0.0.1",
            "SERVER_PORT": str(self.server.port), "REMOTE_HOST": self.peer[0], "REMOTE_ADDR": self.peer[0],
            "REMOTE_PORT": str(self.peer[1]), "CONTENT_TYPE": self.headers.get("content-type"),
            "CONTENT_LENGTH": self.headers.get("content-length"),
            **{"HTTP_" + name.upper().replace("-", "_"): self.headers.get(name) for name in HEADERS}}
        return {name: value.encode("latin-1") for name, value in made.items() if value is not None}

    # ---- the body ----

    def body_part(self):
        """What of the body is at hand, and whether that was its end; only whole chunks."""
        if self.left is not None:
            part, self.ahead = self.ahead[:self.left], self.ahead[self.left:]
            self.left -= len(part)
            return part, self.left == 0
        part = b""
        while True:
            size, line, rest = self.ahead.partition(b"\r\n")
            n = int(size.split(b";")[0], 16) if line else 0
            if not line or len(rest) < n + 2:
                return part, False
            part += rest[:n]
            self.ahead = rest[n + 2:]
            if n == 0:
                return part, True

    def give(self):
        """Hands on the body; the input ends with it. A program that does not read it may."""
        part, ended = self.body_part()
        self.unwritten += part
        if ended:
            self.whole = True

    def write_body(self):
        try:
            n = os.write(self.input, self.unwritten[:65536]) if self.unwritten else 0
            self.unwritten = self.unwritten[n:]
        except BlockingIOError:
            return
        except OSError:
            self.unwritten = b""
        if self.whole and not self.unwritten:
            self.program.stdin.close()
            self.input = None

    # ---- the answer ----

    def send_head(self):
        head, _, rest = self.head.replace(b"\r\n", b"\n").partition(b"\n\n")
        rest = self.head[len(self.head) - len(rest):] if rest else b""
        status, lines = "200 OK", []
        for line in head.decode("latin-1").split("\n"):
            name, _, value = line.partition(":")
            value = value.strip()
            if name == "Status":
                status = value if re.match(r"\d{3} ", value) else status
            else:
                lines.append(f"{name}: {value}")
        self.chunked = self.version == "HTTP/1.1" and self.method not in ("HEAD", "OPTIONS")
        lines += ["Connection: close", *(["Transfer-Encoding: chunked"] if self.chunked else [])]
        self.client.sendall("\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode("latin-1"))
        self.head_sent = True
        self.send(rest)

    def send(self, data):
        if data and self.method != "HEAD":
            self.client.sendall(b"%x\r\n%b\r\n" % (len(data), data) if self.chunked else data)

    def take(self):
        """What the program says; False at its end."""
        data = self.program.stdout.read(65536)
        if self.head_sent:
            self.send(data)
        else:
            self.head += data
            if re.search(rb"\r?\n\r?\n", self.head):
                self.send_head()
        return bool(data)

    def refuse(self, status):
        self.client.sendall(f"HTTP/1.1 {status} {REASONS[status]}\r\nContent-Type: text/html\r\n"
                            f"Connection: close\r\n\r\n{REASONS[status]}\n".encode())

    def heard(self):
        """More of the request, or the caller's end."""
        try:
            data = self.client.recv(65536)
        except OSError:
            data = b""
        self.ahead += data
        if data:
            if not self.whole:
                self.give()
        elif self.whole:
            return False
        else:
            self.whole = True  # the program sees a plain end
        return True

    def relay(self):
        """Until the program has said all, or is to be killed: whether its answer is whole."""
        deadline = time.monotonic() + int(self.server.options["script_timeout"])
        output, gone = self.program.stdout.fileno(), False
        while True:
            poll = select.poll()
            poll.register(output, select.POLLIN)
            if not gone:
                poll.register(self.client, select.POLLIN)
            if self.input is not None:
                poll.register(self.input, select.POLLOUT if self.unwritten or self.whole else 0)
            left = deadline - time.monotonic()
            ready = dict(poll.poll(max(left, 0) * 1000))
            if left <= 0:
                return self.head_sent or self.refuse(504)
            if self.input in ready:
                self.write_body()
            if self.client.fileno() in ready:
                early = not self.whole
                if not self.heard():
                    return False
                gone = gone or (early and self.whole and not self.ahead and self.cut())
            if output in ready and not self.take():
                return self.head_sent or self.refuse(502)

    def cut(self):
        return self.left is None or self.left > 0

    def run(self):
        self.read_head()
        file, script, info = self.find()
        environment = self.environment(file, script, info)
        chunked = "chunked" in self.headers.get("transfer-encoding", "")
        self.left = None if chunked else int(self.headers.get("content-length") or 0)
        self.unwritten, self.whole = b"", False
        with self.server.places:
            self.program = subprocess.Popen([file], env=environment, cwd=self.server.options["home"], bufsize=0,
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self.input = self.program.stdin.fileno()
            os.set_blocking(self.input, False)
            self.give()
            try:
                if self.relay() and self.chunked:
                    self.client.sendall(b"0\r\n\r\n")
            finally:
                self.program.kill()
                self.program.wait()
                self.program.stdin.close()
                self.program.stdout.close()

    def __call__(self):
        try:
            self.run()
        except Refused as why:
            self.refuse(why.args[0])
        except OSError:
            pass  # the caller has gone
        finally:
            self.client.close()


class Server:
    def __init__(self, options, port, users):
        self.options, self.port, self.users = options, port, users
        self.places = threading.BoundedSemaphore(int(options["max_requests"]))

    def run(self):
        with socket.create_server(("127.0.0.1", self.port), backlog=128) as listener:
            while True:
                client, peer = listener.accept()
                threading.Thread(target=Connection(self, client, peer), daemon=True).start()


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    Server(options_of(sys.argv[1]), int(sys.argv[2]), set(sys.argv[3:])).run()


if __name__ == "__main__":
    main()
