"""Upstreams that are worse than the practice model can be told to be: bare sockets, so that nothing
is tidied up on the way. Each counts the requests that have arrived whole."""
import re
import socket
import ssl
import subprocess
import threading


class Upstream:
    """Answers each request by `script(send, head)`, or the next of several, the last for good;
    closes the connection afterwards. With `tls`, a server-side context, over TLS; a script that is
    None closes the connection before anything can have arrived."""

    def __init__(self, *scripts, tls=None):
        self.scripts, self.tls = list(scripts), tls
        self.count, self.connections, self.stopping = 0, 0, False
        self.closed = 0  # connections that the gateway has closed after the answer's end
        self.ended = threading.Event()  # for scripts that wait for the test's end
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}/v1"
        self.thread = threading.Thread(target=self._run)
        self.thread.start()
        self.peers = []

    def _run(self):
        while not self.stopping:
            peer, _ = self.listener.accept()
            self.connections += 1
            peer.settimeout(10)
            # of its own, so that one that hangs does not stop the next
            self.peers.append(threading.Thread(target=self._talk, args=(peer, self._next())))
            self.peers[-1].start()

    def _next(self):
        return self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]

    def _talk(self, peer, script):
        try:
            if script is None:
                return
            if self.tls:
                peer = self.tls.wrap_socket(peer, server_side=True)
            self._serve(peer, script)
            peer.shutdown(socket.SHUT_WR)
            self.closed += not peer.recv(1)
        except OSError:
            pass  # the gateway has hung up on us
        finally:
            peer.close()

    def _serve(self, peer, script):
        data = b""
        while b"\r\n\r\n" not in data:
            more = peer.recv(65536)
            if not more:
                return
            data += more
        head, body = data.split(b"\r\n\r\n", 1)
        length = int(re.search(rb"content-length: (\d+)", head, re.I)[1])
        while len(body) < length:
            body += peer.recv(65536)
        self.count += 1
        script(peer.sendall, head)

    def close(self):
        self.stopping = True
        self.ended.set()
        socket.create_connection(("127.0.0.1", self.port)).close()
        self.thread.join()
        for peer in self.peers:
            peer.join()
        self.listener.close()


def key_of(head):
    """The key as it came: what a careless API shows in its errors."""
    return re.search(rb"(?:authorization|x-api-key): (.*)\r?", head, re.I)[1].strip()


def plain(status=b"200 OK", body=b"{}", headers=b"", kind=b"application/json", length=None):
    """`length`: what Content-Length says instead of the truth."""
    def script(send, head):
        def fill(text):
            return text.replace(b"KEY", key_of(head))

        content = fill(body)
        send(b"HTTP/1.1 " + fill(status) + b"\r\nContent-Type: " + fill(kind) + b"\r\nContent-Length: " +
             str(len(content) if length is None else length).encode() + b"\r\n" + fill(headers) +
             b"Connection: close\r\n\r\n" + content)

    return script


def events(*data):
    return plain(body=b"".join(data), kind=b"text/event-stream")


def certificate(directory, name, days=2, address="127.0.0.1"):
    """A self-signed one for that address, expired if `days` is below 0; its path, and a context for
    a server that shows it."""
    key, request, path, more = (directory / f"{name}.{end}" for end in ("key", "csr", "crt", "ext"))
    more.write_text(f"subjectAltName=IP:{address}\n", encoding="ascii")
    for command in (["req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                     "-keyout", key, "-out", request, "-subj", f"/CN={address}"],
                    ["x509", "-req", "-in", request, "-signkey", key, "-days", str(days), "-extfile", more,
                     "-out", path]):
        subprocess.run(["openssl", *command], check=True, capture_output=True)
    path.chmod(0o644)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path, key)
    return path, context
