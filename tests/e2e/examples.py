"""Sites made from the configurations in platform/examples, changed only where an owner has to:
url, key, secrets and places."""
import base64
import http.server
import json
import threading

import pytest

from harness import GROUP, ROOT

DIRECTORY = ROOT / "platform/examples"
TAIL = """
server {{ socket = '{socket}'{group} streams = 32 }}
log {{ target = stderr level = info }}
"""


def fill(place, name):
    """Puts the shipped configuration in place. Secrets beside the key are made."""
    text = (DIRECTORY / name).read_text(encoding="utf-8")
    for old, new in {
            "'/var/lib/pennygate'": place.store, "'/etc/pennygate/secret'": place.secret,
            "'/etc/pennygate/key'": place.key, "'https://api.openai.com/v1'": place.model.url + "/v1"}.items():
        assert text.count(old) == 1, old
        text = text.replace(old, f"'{new}'")
    bypass = place.directory / "bypass"
    if "'/etc/pennygate/bypass'" in text:
        bypass.write_text("a-secret-of-the-owners-0123456789\n", encoding="ascii")
        bypass.chmod(0o600)
        place.own(bypass)
        text = text.replace("# bypass {", "bypass {").replace("/etc/pennygate/bypass", str(bypass))
    place.write(text + TAIL.format(
        socket=place.socket, group=f" socket-group = '{GROUP}'" if GROUP else ""))
    return place


@pytest.fixture
def shipped(site):
    """A function that makes a site from a shipped configuration, and its store."""

    def make(name, **env):
        place = fill(site(init=False), name)
        place.env.update(env)
        place.init()
        assert "0 faults" in place.run("check")
        return place

    return make


def account(place, name):
    """The header by which lighttpd, started afterwards, knows this account."""
    place.users[name] = "of-" + name
    return "Authorization", "Basic " + base64.b64encode(f"{name}:of-{name}".encode()).decode()


def cookie(answer):
    """The header by which a browser shows the cookie that it was given with this answer."""
    given = answer.header("Set-Cookie")
    assert given, "no cookie"
    return "Cookie", given.partition(";")[0]


class Hook:
    """Where alerts are posted: a server on loopback that keeps what it was sent."""

    def __init__(self):
        hook = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):  # noqa: N802: its name
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(204)
                self.end_headers()
                hook.posts.append(json.loads(body))

            def log_message(self, *_):
                pass

        self.posts = []
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def stop(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def hook():
    made = Hook()
    yield made
    made.stop()
