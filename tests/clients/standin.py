"""What stands in for pennygate where the widget has to meet what pennygate would never send."""
import contextlib
import http.server
import json
import threading

from harness import MOUNT, ROOT
from widget import SPY, document

STATUS = {"available": True, "code": None, "message": None, "retry_after": None, "limits": [],
          "input": {"max_message_chars": 100, "max_input_chars": 1000, "max_history": 10},
          "model": "demo", "models": ["demo"]}


def event(text, finish=None):
    return "data: " + json.dumps({"choices": [{"delta": {"content": text}, "finish_reason": finish}]}) + "\n\n"


class Handler(http.server.BaseHTTPRequestHandler):
    """HTTP/1.0: the end of an answer is the end of the connection."""

    def log_message(self, *_):
        pass

    def answer(self, kind, text, status=200, **headers):
        self.send_response(status)
        for name, value in {"Content-Type": kind, **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text.encode())

    def do_GET(self):
        files = {
            "/page.html": ("text/html; charset=utf-8", lambda: self.server.page),
            "/spy.js": ("text/javascript", lambda: SPY),
            MOUNT + "/widget.js": ("text/javascript", (ROOT / "build/web/widget.js").read_text),
            MOUNT + "/status": ("application/json", lambda: json.dumps(self.server.status)),
        }
        kind, text = files.get(self.path, ("text/plain", None))
        if self.path == MOUNT + "/status":
            self.server.ready.wait()
        if self.server.broken and self.path == MOUNT + "/status":
            self.answer("text/html", "<h1>Bad Gateway</h1>", 502)
        elif text:
            self.answer(kind, text())
        else:
            self.answer(kind, "", 404)

    def do_POST(self):
        self.server.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.answer("text/event-stream", "")
        with contextlib.suppress(OSError):
            for piece in self.server.pieces:
                self.wfile.write(piece)
                self.wfile.flush()
                self.server.gone.wait(0.01)  # or the browser takes several for one
            if self.server.holds:
                self.rfile.read(1)  # until the client has left
        self.server.left += self.server.holds


class StandIn(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.port = self.server_port
        self.broken = False
        self.page = document()
        self.status, self.pieces, self.holds, self.bodies, self.left = STATUS, [], False, [], 0
        self.gone = threading.Event()
        self.ready = threading.Event()  # until then nobody hears how things stand
        self.ready.set()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def says(self, text, split=None, holds=False):
        """What the next answers are, in pieces of so many bytes."""
        data = text.encode()
        split = split or len(data) or 1
        self.pieces = [data[i:i + split] for i in range(0, len(data), split)]
        self.holds = holds

    def stop(self):
        self.gone.set()
        self.ready.set()
        self.shutdown()
        self.server_close()
