"""HTTP/2 to the model API, where the calls of a process share a connection, through an nginx in front
of the practice model."""
import contextlib
import shutil
import socket
import struct
import subprocess

import pytest

from direct import BEGIN, PARAMS, RESPONDER, STDIN, fastcgi, pairs, parameters, record, stream
from harness import Timer, accepts, free_port, until
from upstream import certificate

pytestmark = pytest.mark.skipif(shutil.which("nginx") is None, reason="no nginx")

ANSWER = 1 << 20  # bytes; what sockets hold on the way is a fifth of it
BESIDE = 30
ASK = {"messages": [{"role": "user", "content": "hello"}], "stream": True}


@contextlib.contextmanager
def front(place, model):
    """Puts it into the site's configuration."""
    directory, port = place.directory / "front", free_port()
    directory.mkdir()
    cert, _ = certificate(place.directory, "front")
    temporary = "".join(f"{name}_temp_path {directory}/{name};\n"
                        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    (directory / "conf").write_text(f"""
daemon off;
pid {directory}/pid;
error_log {directory}/log;
events {{}}
http {{
    access_log {directory}/access;
    {temporary}
    server {{
        listen 127.0.0.1:{port} ssl http2;
        ssl_certificate {cert};
        ssl_certificate_key {cert.with_suffix(".key")};
        location / {{
            proxy_pass {model.url};
            proxy_buffering off;
        }}
    }}
}}
""", encoding="utf-8")
    nginx = subprocess.Popen(["nginx", "-c", directory / "conf", "-e", directory / "log"], stdin=subprocess.DEVNULL)
    try:
        until(lambda: accepts(port) or nginx.poll() is not None, 10, "the front")
        assert nginx.poll() is None, (directory / "log").read_text(encoding="utf-8")
        place.demo.update({"url": f"https://127.0.0.1:{port}/v1", "ca-file": cert})
        yield directory / "access"
    finally:
        nginx.terminate()
        nginx.wait(20)


@contextlib.contextmanager
def unread(place):
    """A caller who reads nothing of the answer."""
    sent, body = parameters(body=ASK)
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(str(place.socket))
        peer.sendall(record(BEGIN, struct.pack("!HB5x", RESPONDER, 0)) + stream(PARAMS, pairs(sent.items())) +
                     stream(STDIN, body))
        yield peer


def test_the_configured_buffer_holds_an_answer_that_nobody_reads(site, model):
    """So that a call beside it, over the same connection, is not held up. libcurl 7.88 stops all that
    share one with what is paused; of others each stops by itself."""
    place = site(init=False, server={"buffer": "4M", "heartbeat": "1s"})
    with front(place, model) as log:
        place.write()
        place.init().start("external")
        assert fastcgi(place, body=ASK).status == 200, "and so a connection is open"
        model.set(size=ANSWER, chunks=1000, gap_ms=0)
        with unread(place):
            until(lambda: model.count == 2, 10, "its call")
            model.set(size=10, chunks=1)
            timer = Timer()
            for n in range(BESIDE):  # the first of them may be there before all of that answer is
                assert fastcgi(place, body=ASK, address=f"192.0.2.{2 + n}").status == 200
            assert timer.within(15), "who reads nothing is cut off after 30 s"
        until(lambda: log.read_text(encoding="ascii").count("HTTP/2.0") == 2 + BESIDE, 10, "calls over HTTP/2")
