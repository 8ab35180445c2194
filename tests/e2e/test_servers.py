"""Every web server with the configuration that platform/ has for it: what it hands over, and what
arrives at the caller. One server of each kind serves most of these tests, callers by addresses of
their own; what the tests need of limits and options is swapped in while it runs."""
import base64
import contextlib
import itertools
import json
import re
import socket

import pytest

from harness import CHAT, ROOT, SERVERS, Call, Site, limit, until
from servers import WEB, why_not

JSON = [("Content-Type", "application/json")]
HELLO = {"messages": [{"role": "user", "content": "hello"}]}
BODY = json.dumps(HELLO).encode()
PAGE = "https://page.example"
sources = (f"127.0.{high}.{low}" for high in itertools.count(100) for low in range(1, 250))


@pytest.fixture
def source():
    """An address that no other test has used."""
    return next(sources)


def start(place, mode, **options):
    reason = why_not(mode)
    if reason:
        pytest.skip(reason)
    return place.start(mode, **options)


@pytest.fixture(scope="module", params=WEB)
def web(request, practice):
    place = Site(practice, options={"allowed-origins": [PAGE], "mount": SERVERS[request.param].mount},
                 server={"heartbeat": "1s"})
    try:
        yield start(place.init(), request.param)
    finally:
        place.close()


@contextlib.contextmanager
def configured(server, limits=None, **options):
    """The running site with other limits and options of `site`, for a while."""
    place = server.site
    kept = place.limits, place.site
    place.limits, place.site = {**place.limits, **(limits or {})}, {**place.site, **options}
    place.write()
    try:
        yield
    finally:
        place.limits, place.site = kept
        place.write()


def only(per, maximum):
    return {"own": limit(per, "calls", "day", maximum)}


def statuses(server, headers, source, times=2):
    return [server.chat(headers=headers, source=source).status for _ in range(times)]


# ---- answers ----

def test_a_plain_answer_is_settled(web, model):
    before = web.site.day()["settled"]
    answer = web.chat()
    assert answer.status == 200 and answer.reason.strip() == "OK"
    assert answer.header("Content-Type").startswith("application/json")
    assert answer.header("Content-Encoding") is None
    assert answer.text.startswith("The sea is salt")
    until(lambda: web.site.day()["settled"] == before + 1, 5, "the settle")


def test_f33_f34_a_stream_arrives_as_it_is_made(web, model):
    """Timed at a caller who would take it compressed, on a site that compresses what it can."""
    model.set(chunks=6, gap_ms=100)
    answer = web.chat(stream=True, headers=[("Accept-Encoding", "gzip, deflate, br")])
    assert answer.status == 200
    assert answer.header("Content-Type") == "text/event-stream; charset=utf-8"
    assert answer.header("Content-Encoding") is None
    assert "no-transform" in answer.header("Cache-Control")
    assert answer.events()[-1] == "[DONE]"
    times = [when for when, data in answer.pieces if b'"content":"' in data]
    assert len(times) >= 5, "several chunks arrived as one"
    assert times[-1] - times[0] > 0.35, "the stream was held back"
    gaps = sorted(later - sooner for sooner, later in zip(times, times[1:]))
    assert 0.05 < gaps[len(gaps) // 2] < 0.15, gaps  # one alone can be late by chance


def test_f35_a_silence_has_heartbeats(web, model):
    """The heartbeat's time is a second here; the servers' own timeouts are longer than the model's."""
    model.set(header_first=True, first_ms=2600, gap_ms=0)
    answer = web.chat(stream=True)
    beats = [when for when, data in answer.pieces if data.startswith(b":\n\n")]
    assert len(beats) >= 2 and beats[0] < 1.5
    assert beats[1] - beats[0] > 0.7
    assert answer.events()[-1] == "[DONE]"
    assert re.fullmatch(rb"(:\n\n|data: [^\n]*\n\n)+", answer.body), "on the borders of events alone"


def test_head_and_get(web):
    assert [entry["id"] for entry in web.get("/v1/models").json["data"]] == ["demo"]
    assert web.get("/status").json["available"] is True
    call = web.open("HEAD", "/v1/models")
    assert call.head() == 200
    assert call.socket.recv(100) == b""
    call.close()


@pytest.mark.parametrize("method, path, body, headers, status, code", [
    ("POST", "/v1/chat/completions/", HELLO, JSON, 404, "not_found"),
    ("POST", "/v1/Chat/Completions", HELLO, JSON, 404, "not_found"),
    ("POST", "/v1/embeddings", HELLO, JSON, 404, "not_found"),
    ("POST", "/", HELLO, JSON, 405, "method_not_allowed"),
    ("PUT", CHAT, HELLO, JSON, 405, "method_not_allowed"),
    ("DELETE", CHAT, None, [], 405, "method_not_allowed"),
    ("GET", CHAT, None, [], 405, "method_not_allowed"),
    ("GET", CHAT + "?" + CHAT, None, [], 405, "method_not_allowed"),
    ("GET", "/v1", None, [], 404, "not_found"),
    ("POST", CHAT, HELLO, [], 415, "unsupported_media_type"),
    ("POST", CHAT, HELLO, [("Content-Type", "text/plain")], 415, "unsupported_media_type"),
    ("POST", CHAT, None, JSON, 400, "bad_json"),
    ("POST", CHAT, b"{", JSON, 400, "bad_json"),
    ("POST", CHAT, b" " * 70000, JSON, 413, "body_too_large"),
])
def test_f10_what_is_refused_is_told_by_us(web, model, method, path, body, headers, status, code):
    """In our words, also on a site that has error pages of its own."""
    raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    answer = web.open(method, path, raw, headers).answer()
    assert (answer.status, answer.code) == (status, code)
    assert answer.reason.strip() not in ("", "OK")
    assert (answer.header("Allow") is not None) == (status == 405)
    assert model.stats()["started"] == 0


@pytest.mark.parametrize("path", ["//v1/chat/completions", "/v1//chat/completions", "/./v1/chat/completions",
                                  "/v1/x/../chat/completions", "/v1/chat%2fcompletions",
                                  "/v1/chat/completions%00", "/v1/chat/completion%73", "/v1/chat\\completions"])
def test_f10_other_spellings_are_the_route_or_none(web, model, source, path):
    with configured(web, only("address", 1)):
        found = [web.open("POST", path, BODY, JSON, source=source).answer().status for _ in range(2)]
    assert found in ([200, 429], [404, 404], [400, 400])
    assert model.count == found.count(200)


# ---- bodies ----

def test_a_body_as_large_as_is_allowed(web, model):
    """Above the sizes at which servers begin to write to files."""
    filler = {**HELLO, "metadata": {"filler": "x" * (65536 - len(BODY) - 30)}}
    assert web.open("POST", CHAT, json.dumps(filler).encode(), JSON).answer().status == 200


def test_a_body_far_above_it(web, model):
    """By whomever, and whether or not all of it is read."""
    call = web.open("POST", CHAT, b"", [*JSON, ("Content-Length", "3000000")])
    with contextlib.suppress(OSError):
        call.socket.sendall(b" " * 3000000)
    with contextlib.suppress(OSError):
        assert call.head() == 413
    call.close()
    assert model.stats()["started"] == 0
    assert web.get("/status").status == 200


def test_a_chunked_body(web, model):
    parts = BODY[:20], BODY[20:]
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (*parts, b""))
    head = (f"POST {web.mount}{CHAT} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n")
    with socket.create_connection(("127.0.0.1", web.port), 10) as peer, peer.makefile("rb") as file:
        peer.sendall(head.encode() + chunks)
        assert file.read().startswith(b"HTTP/1.1 200 ")
    assert model.count == 1


def test_a_body_that_was_announced_and_not_sent(web, model):
    """The caller goes away in the middle of it: no call, and nothing charged."""
    before = web.site.day()["admitted"]
    for close in (lambda one: None, lambda one: one.socket.shutdown(socket.SHUT_WR)):
        call = web.open("POST", CHAT, BODY, [*JSON, ("Content-Length", str(len(BODY) + 5))])
        close(call)
        call.close()
    assert web.get("/status").status == 200
    assert model.stats()["started"] == 0 and web.site.day()["admitted"] == before


def test_expect_100(web, model):
    call = web.open("POST", CHAT, b"", [*JSON, ("Content-Length", str(len(BODY))), ("Expect", "100-continue")])
    assert call.head() == 100
    call.socket.sendall(BODY)
    call.head_read = False
    assert call.answer().status == 200


# ---- refusals ----

def test_a_refusal_keeps_its_headers(web, model, source):
    with configured(web, only("address", 1)):
        first, second = web.chat(source=source), web.chat(stream=True, source=source)
    assert first.header("X-RateLimit-Remaining") == "0"
    assert '"own";q=1;w=86400' in first.header("RateLimit-Policy")
    assert (second.status, second.code) == (429, "address_limit")
    assert int(second.header("Retry-After")) >= 1
    assert second.header("x-should-retry") == "false"
    assert '"own";r=0' in second.header("RateLimit")


def test_503_is_ours(web, model):
    web.site.run("pause")
    try:
        answer = web.chat()
    finally:
        web.site.run("resume")
    assert (answer.status, answer.code) == (503, "paused")
    assert int(answer.header("Retry-After")) >= 1


@pytest.fixture
def impatient(web):
    """The running site with a model that has to answer within a second, before any heartbeat."""
    place = web.site
    kept = place.demo, place.server
    place.demo = {**place.demo, "first-byte-timeout": "1s", "breaker-after": 100}
    place.server = {**place.server, "heartbeat": "10s"}
    place.write()
    yield web
    place.demo, place.server = kept
    place.write()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("settings, status, code", [
    ({"status": 400}, 502, "upstream_error"), ({"status": 500}, 502, "upstream_error"),
    ({"status": 502}, 502, "upstream_error"), ({"status": 504}, 502, "upstream_error"),
    ({"cut": "header"}, 502, "upstream_error"), ({"hang": True}, 504, "upstream_timeout")], ids=str)
def test_f51_502_and_504_are_ours_and_the_model_is_asked_once(impatient, model, settings, status, code, stream):
    """Neither a page of the server's nor a second try of its own; the caller is told not to try either."""
    model.set(**settings)
    answer = impatient.chat(stream=stream)
    assert (answer.status, answer.code) == (status, code)
    assert answer.header("x-should-retry") == "false"
    until(lambda: model.stats()["open"] == 0, 5, "the end of the call")
    assert model.stats()["started"] == 1


# ---- callers ----

def forwarded(*values, name="X-Forwarded-For"):
    return [(name, value) for value in values]


def test_f37_a_forwarding_header_is_the_callers_own_word(web, model, source):
    with configured(web, only("address", 1)):
        assert [web.chat(headers=forwarded(f"192.0.2.{n}"), source=source).status for n in (1, 2)] == [200, 429]


def test_f37_a_trusted_proxy_is_believed(web, model, source):
    """Where the server hands the header on."""
    end = source.rpartition(".")[2]
    with configured(web, only("address", 1), **{"trusted-proxies": ["127.0.0.0/8"]}):
        assert statuses(web, forwarded(f"192.0.2.{end}"), source) == [200, 429]
        other = web.chat(headers=forwarded(f"192.0.2.{end}, 198.51.100.{end}"), source=source).status
    assert other == (200 if web.forwards else 429)


@pytest.mark.parametrize("make", [
    lambda n, real: forwarded(f"192.0.2.{n}", real),
    lambda n, real: [*forwarded(f"192.0.2.{n}", name="X_Forwarded_For"), *forwarded(real)],
    lambda n, real: [*forwarded(real), *forwarded(f"192.0.2.{n}", name="X_Forwarded_For")],
    lambda n, real: [*forwarded(real), *forwarded(f"192.0.2.{n}", name="X-Forwarded_For")],
    lambda n, real: [*forwarded(real), *forwarded(f"192.0.2.{n}", name="X_Forwarded-For")],
    lambda n, real: [*forwarded(f"192.0.2.{n}", name="Forwarded"), *forwarded(real)],
    lambda n, real: forwarded(f"192.0.2.{n}, {real}")])
def test_f37_no_second_header_makes_a_fresh_caller(web, model, source, make):
    """Behind a proxy that adds its own: what the caller has written before it never counts,
    however the server joins, doubles, renames or drops it."""
    real = "203.0.113." + source.rpartition(".")[2]
    with configured(web, only("address", 1), **{"trusted-proxies": ["127.0.0.0/8"]}):
        found = [web.chat(headers=make(n, real), source=source).status for n in (1, 2, 3)]
    assert found == [200, 429, 429]


def bearer(token):
    return [("Authorization", f"Bearer {token}")]


def test_authorization_arrives(web, model):
    token = re.search(r"pg_[\w-]+", web.site.run("keys", "add", "ann"))[0]
    with configured(web, require="key"):
        assert web.chat(headers=bearer(token)).status == 200
        for headers in ([], bearer(token[:-1]), bearer("sk-mine")):
            answer = web.chat(headers=headers)
            assert (answer.status, answer.code) == (401, "unauthorized")
            assert answer.header("WWW-Authenticate") == "Bearer"
        web.site.run("keys", "revoke", "ann")
        assert web.chat(headers=bearer(token)).status == 401
    assert token not in web.log() and model.count == 1


def test_the_owners_secret_arrives(web, model, source):
    """Under uhttpd as a bearer token."""
    place, secret = web.site, "correct-horse-battery-staple-0123456789"
    file = place.directory / "bypass"
    file.write_text(secret + "\n", encoding="ascii")
    file.chmod(0o600)
    place.own(file)
    place.sections["bypass"] = {"secret-file": file}
    try:
        with configured(web, only("address", 0)):
            assert web.chat(headers=bearer(secret), source=source).status == 200
            found = web.chat(headers=[("X-Pennygate-Bypass", secret)], source=source).status
            assert found == (200 if web.own_headers else 429)
    finally:
        place.sections["bypass"] = {}
        place.write()


def basic(name, word):
    return [("Authorization", "Basic " + base64.b64encode(f"{name}:{word}".encode()).decode())]


def test_nobody_makes_himself_an_account(web, model):
    """A name that the web server has not checked is none: nginx has one for whoever writes it."""
    with configured(web, require="account"):
        for headers in (basic("ann", "guess"), [("Remote-User", "ann")], [("Remote_User", "ann")],
                        [("Http-Auth-User", "ann")], [*basic("ann", ""), ("Auth-Type", "Basic")]):
            assert web.chat(headers=headers).code == "unauthorized", headers
    assert model.stats()["started"] == 0


def test_cookies_arrive_and_are_set(web, model, source):
    with configured(web, only("visitor", 1)):
        first = web.chat(source=source, stream=True)
        cookie = first.header("Set-Cookie").partition(";")[0]
        assert statuses(web, [("Cookie", f"a=b; {cookie}; c=d")], source) == [200, 429]
        # Servers join two headers by "; ", by ",", or not at all: known or a stranger, never a fresh one.
        for headers in ([("Cookie", "a=b"), ("Cookie", cookie)], [("Cookie", cookie), ("Cookie", "a=b")],
                        [("Cookie", cookie), ("Cookie", cookie)]):
            assert web.chat(headers=headers, source=source).code == "visitor_limit", headers


def test_f48_a_callers_proxy_is_not_used(web, model):
    for name in ("Proxy", "HTTP_PROXY", "Http-Proxy", "All-Proxy"):
        assert web.chat(headers=[(name, "http://127.0.0.1:9")]).status == 200, name
    assert model.count == 4


def test_f52_origins(web, model):
    def ask(origin):
        return web.open("POST", CHAT, BODY, [*JSON, ("Origin", origin)]).answer()

    assert ask(f"http://127.0.0.1:{web.port}").status == 200, "our own page"
    listed = ask(PAGE)
    assert listed.status == 200
    assert listed.header("Access-Control-Allow-Origin") == PAGE
    assert listed.header("Vary") == "Origin"
    for foreign in ("https://evil.example", "null", f"http://127.0.0.1:{web.port + 1}"):
        answer = ask(foreign)
        assert (answer.status, answer.code) == (403, "forbidden_origin"), foreign
        assert answer.header("Access-Control-Allow-Origin") is None
    assert model.count == 2


def test_a_preflight_lets_a_listed_page_send_json(web, model):
    answer = web.open("OPTIONS", CHAT, b"", [
        ("Origin", PAGE), ("Access-Control-Request-Method", "POST"),
        ("Access-Control-Request-Headers", "authorization,content-type")]).answer()
    assert (answer.status, answer.body) == (204, b"")
    assert answer.header("Access-Control-Allow-Origin") == PAGE
    assert "POST" in answer.header("Access-Control-Allow-Methods").split(", ")
    allowed = answer.header("Access-Control-Allow-Headers").split(", ")
    assert {"authorization", "content-type"} <= set(allowed)
    assert model.stats()["started"] == 0


# ---- servers of their own ----

@pytest.mark.parametrize("mode", WEB)
def test_accounts_are_those_of_the_web_server(site, model, mode):
    """With what the file says of accounts taken in."""
    place = site(limits=only("account", 1), options={"mount": SERVERS[mode].mount})
    place.users = {"ann": "word"}
    server = start(place, mode)
    assert statuses(server, basic("ann", "word"), "127.0.0.1") == [200, 429]
    assert server.chat(headers=basic("ann", "word"), source="127.0.0.9").code == "account_limit"
    assert server.chat(headers=basic("ann", "guess")).status == 401


@pytest.mark.parametrize("mode", [mode for mode in (*WEB, "apache-fcgid") if mode != "uhttpd"])
def test_the_owners_pages_alone_by_accounts_of_the_web_server(site, model, mode):
    """As the files in platform/ say; all else goes on as without them, keys included."""
    place = site(options={"mount": SERVERS[mode].mount})
    place.sections["dashboard"] = {"accounts": ["ann"]}
    place.write()
    server = start(place, mode, owners={"ann": "word"})
    word = place.run("dashboard-password").strip()

    def ask(path, *headers):
        return server.open("GET", path, b"", list(headers)).answer()

    for path in ("/dashboard", "/dashboard.json", "/metrics"):
        assert ask(path, *basic("ann", "word")).status == 200, path
        asked = ask(path)
        assert asked.status == 401 and "realm" in asked.header("WWW-Authenticate"), path
    assert ask("/dashboard", *basic("ann", word)).status == 401, "pennygate's own password"
    for path in ("/", "/status", "/dashboard.css", "/widget.js"):
        assert ask(path).status == 200, path
    token = re.search(r"pg_[\w-]+", place.run("keys", "add", "key"))[0]
    assert server.chat().status == server.chat(headers=basic("ann", "guess")).status == 200
    with configured(server, require="account"):
        assert server.chat(headers=basic("ann", "word")).code == "unauthorized"
    with configured(server, require="key"):
        assert server.chat(headers=bearer(token)).status == 200


MOUNTED = [(mode, mount, unsplit) for mode in WEB if mode != "uhttpd" for mount in ("", "/ai", "/deep/er/ai")
           for unsplit in (False, True) if SERVERS[mode].divides and mode != "apache-cgid" or not unsplit]


@pytest.mark.parametrize("mode, mount, unsplit", MOUNTED)
def test_it_can_be_mounted_anywhere(site, model, mode, mount, unsplit):
    """At the root and below a prefix; with `mount` and, where the server divides the path, without."""
    place = site(options={"mount": None})
    server = start(place, mode, mount=mount, unsplit=unsplit)
    for configured_mount in ([] if unsplit and mount else [None]) + [mount or "/"]:
        with configured(server, mount=configured_mount):
            assert server.chat().status == 200, configured_mount
            assert server.get("/v1/models?x=1").status == 200
            assert server.get("/nothing").code == "not_found"
            assert server.open("POST", CHAT + CHAT, BODY, JSON).answer().code == "not_found"
            if configured_mount:  # without, lighttpd at the root takes /x for one
                assert server.open("POST", "/x" + CHAT, BODY, JSON).answer().code == "not_found"
    with configured(server, mount="/elsewhere"):
        assert server.chat().code == "not_found"
    if mount:
        server.page("air.html", "mine")
        assert Call(server.port, "GET", "/air.html").answer().body == b"mine", "beside it is the site"
        assert server.get("").status in (301, 308, 404)


@pytest.mark.parametrize("mode", ["apache-fcgid", "apache-cgi"])
def test_what_some_have_instead_works_at_all(site, model, mode):
    """mod_fcgid, and mod_cgi under Apache's processes without threads: it streams, settles, and keeps
    keys and refusals."""
    place = site(limits=only("address", 2))
    server = start(place, mode)
    model.set(chunks=6, gap_ms=100)
    answer = server.chat(stream=True)
    times = [when for when, data in answer.pieces if b'"content":"' in data]
    assert answer.events()[-1] == "[DONE]" and times[-1] - times[0] > 0.35
    assert server.chat(headers=bearer("pg_unknown")).status == 401
    assert [server.chat().status for _ in range(2)] == [200, 429]
    assert place.settled()["settled"] == 2


def test_caddy_behind_a_proxy(site, model):
    """With the changes that its file names: the proxy is Caddy's, and ours, to trust."""
    place = site(limits=only("address", 1), options={"trusted-proxies": ["127.0.0.0/8"]})
    server = start(place, "caddy", changes=[
        ("header_up -X-Forwarded-For", "trusted_proxies 127.0.0.0/8")])
    for values in (("192.0.2.1",), ("192.0.2.2",), ("192.0.2.9, 192.0.2.3",)):
        assert statuses(server, forwarded(*values), "127.0.0.1") == [200, 429], values


@pytest.mark.parametrize("file", ["nginx/pennygate.conf", "apache/proxy.conf", "apache/cgi.conf",
                                  "apache/fcgid.conf", "caddy/pennygate.caddy", "uhttpd/pennygate.uci"])
def test_f35_the_servers_timeouts_are_longer_than_ours(file):
    text = (ROOT / "platform" / file).read_text(encoding="utf-8")
    ours = int(re.search(r'"total-timeout", "(\d+)s"', (ROOT / "gateway/config_options.c").read_text())[1])
    found = re.findall(r"^[^#\n]*(?:read_timeout|timeout=|ScriptTimeout|script_timeout|Timeout)\W*(\d+)", text, re.M)
    assert found and all(int(seconds) > ours for seconds in found)
    assert f"total-timeout ({ours} s)" in text


def test_what_people_see_arrives(web, source):
    """The page at its path, the widget as caches may keep it, the dashboard by its password."""
    page = web.get("/", source=source)
    assert page.status == 200 and b"widget.js" in page.body
    assert page.header("Content-Security-Policy").startswith("default-src 'none'; script-src 'self'")
    below = web.get("", source=source)
    if web.mode == "nginx":  # leads there by itself
        assert (below.status, below.header("Location")) == (301, f"http://127.0.0.1:{web.port}{web.mount}/")
    elif web.mode != "caddy":  # hands on what is below the mount alone
        assert (below.status, below.header("Location")) == (308, web.mount.rpartition("/")[2] + "/")
    widget = web.get("/widget.js", source=source)
    assert (widget.status, widget.header("Content-Type")) == (200, "text/javascript; charset=utf-8")
    assert widget.header("Cross-Origin-Resource-Policy") == "cross-origin"
    again = web.open("GET", "/widget.js", b"", [("If-None-Match", widget.header("ETag"))], source=source).answer()
    assert again.status == (200 if web.mode == "uhttpd" else 304)  # it keeps the question to itself
    word = web.site.run("dashboard-password").strip()
    owner = "Authorization", "Basic " + base64.b64encode(f"me:{word}".encode()).decode()
    assert web.open("GET", "/dashboard", b"", [owner], source=source).answer().status == 200
    asked = web.get("/dashboard", source=source)
    assert asked.status == 401 and asked.header("WWW-Authenticate").startswith("Basic realm=")
