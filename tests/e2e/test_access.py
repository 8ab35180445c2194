"""Who may ask at all: pages by their origin, with what browsers are told of it, and callers by
key or account. Whoever may not spends nothing and is counted apart."""
import json

import pytest

from harness import CHAT, until

JSON = [("Content-Type", "application/json")]
HELLO = json.dumps({"messages": [{"role": "user", "content": "hello"}]}).encode()
PAGE = "https://page.example"
FOREIGN = [("Origin", "https://evil.example")]
LISTED = [("Origin", PAGE)]
ONE = {"visitor-day": {"per": "address", "unit": "calls", "window": "day", "max": 1}}


@pytest.fixture
def open_gate(gate):
    """A site that one page of another host may use."""
    return lambda mode="spawned", **more: gate(mode, options={"allowed-origins": [PAGE]}, **more)


def ask(server, headers, method="POST", path=CHAT):
    if method == "POST":
        return server.open(method, path, HELLO, [*JSON, *headers]).answer()
    return server.open(method, path, b"", headers).answer()


def own(server):
    return [("Origin", f"http://127.0.0.1:{server.port}")]


@pytest.mark.parametrize("origin", [
    "https://evil.example", "null", "http://page.example", "https://page.example:8443",
    "https://page.example.evil.example", "https://evil.example/https://page.example",
    "https://page.example https://page.example", "https://page.example, https://page.example", "*"])
def test_f52_other_pages_cannot_spend(open_gate, model, origin):
    server = open_gate()
    for method, path in (("POST", CHAT), ("GET", "/status"), ("GET", "/v1/models")):
        answer = ask(server, [("Origin", origin)], method, path)
        assert (answer.status, answer.code) == (403, "forbidden_origin")
        assert answer.header("Access-Control-Allow-Origin") is None
    assert model.stats()["started"] == 0
    assert server.site.day()["admitted"] == 0


def test_f52_our_own_pages_and_listed_ones_may(open_gate, model, mode):
    server = open_gate(mode)
    assert ask(server, []).status == 200
    assert ask(server, own(server)).status == 200
    answer = ask(server, LISTED)
    assert answer.status == 200
    assert answer.header("Access-Control-Allow-Origin") == PAGE
    assert answer.header("Vary") == "Origin"
    assert answer.header("Access-Control-Allow-Credentials") is None
    assert model.count == 3


def test_without_the_option_only_our_own_pages_may(gate, mode):
    server = gate(mode)
    assert ask(server, own(server)).status == 200
    assert ask(server, LISTED).status == 403
    assert ask(server, []).header("Vary") is None


def test_a_listed_page_can_read_every_answer(open_gate, model):
    """Also errors, or its script would see a network failure and no reason."""
    server = open_gate(limits=ONE)
    stream = server.chat(stream=True, headers=LISTED)
    assert stream.events()[-1] == "[DONE]"
    answers = [stream, ask(server, LISTED), ask(server, LISTED, "GET", "/status"),
               ask(server, LISTED, "GET", "/v1/models"), ask(server, LISTED, "GET", CHAT),
               ask(server, LISTED, "GET", "/nothing"),
               server.open("POST", CHAT, HELLO, LISTED).answer(),
               server.chat(headers=[*LISTED, ("Authorization", "Bearer pg_a.b")])]
    assert [answer.status for answer in answers] == [200, 429, 200, 200, 405, 404, 415, 401]
    for answer in answers:
        assert answer.header("Access-Control-Allow-Origin") == PAGE
        assert answer.header("Vary") == "Origin"
        exposed = answer.header("Access-Control-Expose-Headers").split(", ")
        for name in ("Retry-After", "RateLimit", "X-RateLimit-Remaining", "X-Request-Id"):
            assert name in exposed


def test_credentials_are_allowed_where_the_cookie_may_cross(gate):
    server = gate(options={"allowed-origins": [PAGE], "cookie-cross-site": "yes"})
    assert ask(server, LISTED).header("Access-Control-Allow-Credentials") == "true"
    assert ask(server, own(server)).header("Access-Control-Allow-Credentials") is None
    assert ask(server, FOREIGN).header("Access-Control-Allow-Credentials") is None


def preflight(server, path, headers, method="POST", asked=None):
    more = [("Access-Control-Request-Headers", asked)] if asked else []
    return server.open("OPTIONS", path, b"",
                       [*headers, ("Access-Control-Request-Method", method), *more]).answer()


def test_a_preflight(open_gate, mode):
    answer = preflight(open_gate(mode), CHAT, LISTED, asked=(
        "authorization,content-type,x-stainless-lang,x-stainless-retry-count,x-pennygate-bypass"))
    assert (answer.status, answer.body) == (204, b"")
    assert answer.header("Access-Control-Allow-Origin") == PAGE
    assert "POST" in answer.header("Access-Control-Allow-Methods").split(", ")
    assert answer.header("Access-Control-Allow-Headers").split(", ") == [
        "authorization", "content-type", "x-stainless-lang", "x-stainless-retry-count"]
    assert answer.header("Access-Control-Max-Age") == "600"


@pytest.mark.parametrize("path, headers, status", [
    (CHAT, LISTED, 204), ("/v1/models", LISTED, 204), ("/status", LISTED, 204),
    (CHAT, FOREIGN, 403), ("/status", FOREIGN, 403), (CHAT, [], 403),
    ("/v1/embeddings", LISTED, 404), ("/v1/embeddings", FOREIGN, 404), ("", LISTED, 404),
])
def test_preflights_are_for_listed_pages_and_paths(open_gate, model, path, headers, status):
    answer = preflight(open_gate(), path, headers)
    assert answer.status == status
    if status == 403:
        assert answer.header("Access-Control-Allow-Methods") is None
    assert model.stats()["started"] == 0


def test_an_account_is_required(gate, model):
    server = gate(options={"require": "account"})
    for method, path in (("POST", CHAT), ("GET", "/status"), ("GET", "/v1/models")):
        answer = ask(server, [("Remote-User", "ann"), ("Authorization", "Bearer sk-1")], method, path)
        assert (answer.status, answer.code) == (401, "unauthorized")
        assert answer.header("WWW-Authenticate") is None, "no key would help"
    assert model.stats()["started"] == 0


def test_the_account_is_the_web_servers(site, model):
    place = site(options={"require": "account"})
    place.users = {"ann": "word"}
    server = place.start()
    answer = server.chat(headers=[("Authorization", "Basic YW5uOndvcmQ=")])
    assert answer.status == 200 and model.count == 1
    assert server.chat().code == "unauthorized"


@pytest.mark.parametrize("token, code", [
    (None, "unauthorized"), ("sk-1", "unauthorized"), ("pg_unknown", "unauthorized"),
    ("pg_a.b", "unauthorized"), ("pg_" + "a" * 4000, "unauthorized")])
def test_a_key_is_required(gate, model, token, code, mode):
    server = gate(mode, options={"require": "key"})
    headers = [("Authorization", f"Bearer {token}")] if token else []
    before = server.site.data()
    for method, path in (("POST", CHAT), ("GET", "/status"), ("GET", "/v1/models")):
        answer = ask(server, headers, method, path)
        assert (answer.status, answer.code) == (401, code)
        assert answer.header("WWW-Authenticate") == "Bearer"
    assert model.stats()["started"] == 0
    assert server.site.data() == before, "who may not ask writes nothing"


def test_a_key_that_is_shown_must_be_one_of_the_sites(gate, model):
    """Also where none is required: a revoked key must not go on as a stranger."""
    server = gate()
    for method, path in (("POST", CHAT), ("GET", "/status"), ("GET", "/v1/models")):
        assert ask(server, [("Authorization", "Bearer pg_unknown")], method, path).status == 401
        assert ask(server, [("Authorization", "Bearer sk-any")], method, path).status == 200
    assert model.count == 1


def test_denials_are_counted_apart(open_gate):
    server = open_gate()
    assert ask(server, FOREIGN).status == 403
    assert ask(server, [("Authorization", "Bearer pg_unknown")]).status == 401
    assert server.site.day()["denied"] == 2


def test_of_several_reasons_the_first_is_told(site, model):
    """In the order of what it costs us to find out: each time the reason that was told is mended, and
    the next one stands. Until all are, nobody has spent anything."""
    place = site(options={"require": "key"}, server={"streams": 1}, request={"max-message-chars": 10},
                 limits={"mine": {"per": "key", "unit": "calls", "window": "day", "max": 1}})
    key, spent, other = (place.run("keys", "add", name).strip() for name in ("ann", "bob", "dan"))
    server = place.start()
    assert server.chat("x", headers=[("Authorization", f"Bearer {spent}")]).status == 200
    model.set(chunks=400, gap_ms=20)
    held = server.begin("x", stream=True, headers=[("Authorization", f"Bearer {other}")], parts=True)
    held.wait_for(b'"content":"')
    place.run("pause")
    ask = {"path": "/v1/embeddings", "method": "PUT", "origin": "https://evil.example", "type": "text/plain",
           "key": None, "body": b"{" + b" " * 70000, "also": None}

    def code():
        headers = [("Content-Type", ask["type"])]
        headers += [("Origin", ask["origin"])] if ask["origin"] else []
        headers += [("Authorization", f"Bearer {ask['key']}")] if ask["key"] else []
        answer = server.open(ask["method"], ask["path"], ask["body"], headers).answer()
        return None if answer.status == 200 else answer.code

    for expected, mend in (
            ("not_found", {"path": CHAT}), ("method_not_allowed", {"method": "POST"}),
            ("forbidden_origin", {"origin": None}), ("unsupported_media_type", {"type": "application/json"}),
            ("unauthorized", {"key": "pg_" + "a" * 32}), ("body_too_large", {"body": b"{"}),
            ("unauthorized", {"key": spent}), ("paused", {"also": lambda: place.run("resume")}),
            ("key_limit", {"key": key}), ("bad_json", {"body": b"{}"}),
            ("bad_request", {"body": b'{"messages":[{"role":"user","content":"more than ten"}]}'}),
            ("too_long", {"body": b'{"messages":[{"role":"user","content":"x"}]}'}),
            ("busy", {"also": held.close})):
        assert code() == expected
        if mend.get("also"):
            mend["also"]()
        ask.update(mend)
    model.set(chunks=2, gap_ms=0)
    until(lambda: code() is None, 5, "the place")
    assert model.stats()["started"] == 3
