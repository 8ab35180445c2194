"""pennygate check --through, asked of every web server with the configuration that platform/ has for
it, and with one line of that missing: it says which."""
import re

import pytest

from harness import SERVERS
from servers import WEB, why_not


def ask(site, mode, silence="0", **options):
    reason = why_not(mode)
    if reason:
        pytest.skip(reason)
    place = site(options={"mount": SERVERS[mode].mount})
    server = place.start(mode, **options)
    done = place.run("check", "--through", f"http://127.0.0.1:{server.port}{server.mount}", "--silence", silence,
                     check=False)
    assert not done.stderr, done.stderr
    return done.returncode, " ".join(done.stdout.split())


@pytest.mark.parametrize("web", WEB)
def test_what_platform_has_is_well(site, model, web):
    status, said = ask(site, web, "1")
    assert status == 0 and said.endswith("0 faults"), said
    name = {"lighttpd": "lighttpd", "apache": "Apache", "nginx": "nginx", "caddy": "Caddy",
            "uhttpd": "uhttpd"}[web.partition("-")[0]]
    assert re.search(rf"server {name}\S*( \(\w+\))? by (FastCGI|CGI)", said), said
    assert "stream it arrives piece by piece, not compressed" in said
    assert "address 127.0.0.1, the visitor's own" in said
    assert "1 s of it cut nothing" in said
    assert "Proxy header" not in said
    assert ("headers of one's own do not arrive" in said) == (web == "uhttpd")
    assert model.count == 0


# What is missing, what is told and whether as a fault, and the line.
MISSING = {
    "apache-proxy: Authorization": (
        "apache-proxy", [("CGIPassAuth On", "")], "0", "note headers: Authorization does not arrive",
        'CGIPassAuth On (in <Location "/ai/">'),
    "apache-proxy: F33": (
        "apache-proxy", [(" flushpackets=on", ""), ("SetEnv no-gzip 1", "")], "0", "FAULT stream: it is compressed",
        'SetEnv no-gzip 1 (in <Location "/ai/">)'),
    "apache-proxy: F33 alone": (
        "apache-proxy", [(" flushpackets=on", "")], "0", "FAULT stream: it is buffered", "flushpackets=on"),
    "apache-proxy: F34": (
        "apache-proxy", [("SetEnv no-gzip 1", "")], "0", "note stream: it arrives piece by piece, but compressed (gzip)",
        'SetEnv no-gzip 1 (in <Location "/ai/">)'),
    "apache-proxy: F35": (
        "apache-proxy", [("timeout=200", "timeout=2")], "5", "FAULT silence: an answer is cut within", "timeout=125"),
    "apache-cgid: Authorization": (
        "apache-cgid", [("CGIPassAuth On", "")], "0", "note headers: Authorization does not arrive",
        'CGIPassAuth On (in <Location "/ai/">'),
    "apache-cgid: F34": (
        "apache-cgid", [("SetEnv no-gzip 1", ""), ("FilterChain !", "")], "0", "FAULT stream: it is compressed",
        'SetEnv no-gzip 1 (in <Location "/ai/">)'),
    "nginx: F33": (
        "nginx", [("fastcgi_buffering off;", "fastcgi_ignore_headers X-Accel-Buffering;")], "0",
        "FAULT stream: it is buffered", "fastcgi_buffering off;"),
    "nginx: F34": (
        "nginx", [("gzip off;", "")], "0", "note stream: it arrives piece by piece, but compressed (gzip)", "gzip off;"),
    "nginx: F35": (
        "nginx", [("fastcgi_read_timeout 200s;", "fastcgi_read_timeout 2s;")], "5",
        "FAULT silence: an answer is cut within", "fastcgi_read_timeout 125s;"),
    "nginx: F48": (
        "nginx", [('fastcgi_param HTTP_PROXY        "" if_not_empty;', "")], "0",
        "note headers: a caller's Proxy header becomes HTTP_PROXY", 'fastcgi_param HTTP_PROXY "" if_not_empty;'),
    "nginx: bodies": (
        "nginx", [("client_max_body_size 1m;", "client_max_body_size 32k;")], "0",
        "FAULT body: a request of max-body-bytes, 65536, does not arrive: HTTP status 413", "client_max_body_size 64k;"),
    "nginx: the host": (
        "nginx", [("fastcgi_param HTTPS ", "fastcgi_param HTTP_HOST backend; fastcgi_param HTTPS ")], "0",
        "FAULT pages: those of this host are refused (forbidden_origin), because the gateway is told that it is "
        "'backend'", "fastcgi_param HTTP_HOST $http_host;"),
    "caddy: F35": (
        "caddy", [("read_timeout 200s", "read_timeout 2s")], "5", "FAULT silence: an answer is cut within",
        "read_timeout 125s (within transport fastcgi)"),
    "caddy: F48": (
        "caddy", [("header_up -Proxy\n", "\n")], "0", "note headers: a caller's Proxy header becomes HTTP_PROXY",
        "header_up -Proxy (within reverse_proxy)"),
    "caddy: bodies": (
        "caddy", [("max_size 1MB", "max_size 32KB")], "0", "FAULT body:", "request_body { max_size 64KiB }"),
    "uhttpd: F35": (
        "uhttpd", [("script_timeout '200'", "script_timeout '2'")], "5", "FAULT silence: an answer is cut within",
        "option script_timeout '125'"),
}


@pytest.mark.parametrize("what", MISSING)
def test_the_line_that_is_missing_is_told(site, what):
    web, changes, silence, told, line = MISSING[what]
    status, said = ask(site, web, silence, changes=changes)
    assert told in said, said
    assert line in said.partition(told)[2], said
    assert status == told.startswith("FAULT")
