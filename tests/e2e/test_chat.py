"""The main job in each of the three ways to be mounted: plain and streamed answers, the models,
and every error with its shape and headers."""
import json

import pytest

from harness import CHAT, alive, until

JSON = [("Content-Type", "application/json")]
HELLO = {"messages": [{"role": "user", "content": "hello"}]}


def test_a_plain_answer(gate, model, mode):
    answer = gate(mode).chat()
    assert answer.status == 200
    assert answer.header("Content-Type").startswith("application/json")
    assert answer.json["object"] == "chat.completion"
    assert answer.json["id"].startswith("chatcmpl-")
    assert answer.json["model"] == "demo"
    choice = answer.json["choices"][0]
    assert choice["message"]["role"] == "assistant" and choice["finish_reason"] == "stop"
    assert answer.text.startswith("The sea is salt")
    assert model.count == 1


def test_a_streamed_answer_arrives_as_it_is_made(gate, model, mode):
    """Chunks are timed at the caller: one that buffers anywhere on the way fails."""
    model.set(chunks=8, gap_ms=100)
    answer = gate(mode).chat(stream=True)
    assert answer.status == 200
    assert answer.header("Content-Type").startswith("text/event-stream")
    assert "no-cache" in answer.header("Cache-Control")
    assert "no-transform" in answer.header("Cache-Control")
    assert answer.header("X-Accel-Buffering") == "no"
    assert answer.text.startswith("The sea is salt") and answer.text.endswith("gathered.")
    assert answer.events()[-1] == "[DONE]"
    with_text = [when for when, data in answer.pieces if b'"content":"' in data]
    gaps = [later - sooner for sooner, later in zip(with_text, with_text[1:])]
    assert len(with_text) >= 7, "several chunks arrived as one"
    assert with_text[-1] - with_text[0] > 0.5, "the stream was held back"
    assert 0.05 < sorted(gaps)[len(gaps) // 2] < 0.15, gaps  # one alone can be late by chance


def test_a_stream_has_the_shape_that_clients_know(gate):
    chunks = gate().chat(stream=True).chunks()
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert {chunk["model"] for chunk in chunks} == {"demo"}
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert all(chunk["choices"] for chunk in chunks), "nobody asked for the usage chunk"


def test_the_usage_chunk_comes_if_it_is_asked_for(gate, model):
    model.set(prompt_tokens=9, completion_tokens=8)
    chunks = gate().chat(stream=True, fields={"stream_options": {"include_usage": True}}).chunks()
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["prompt_tokens"] == 9
    assert chunks[-1]["usage"]["completion_tokens"] == 8
    assert chunks[-1]["usage"]["total_tokens"] == 17


def test_only_known_fields_go_to_the_model(gate, model):
    """What a caller asks for beyond the allow-list never reaches the API."""
    answer = gate().chat(fields={"temperature": 2, "n": 1, "max_tokens": 100000, "user": "me",
                                 "metadata": {"a": "b"}})
    assert answer.status == 200
    assert set(model.last) <= {"model", "messages", "max_completion_tokens", "stream"}
    assert model.last["model"] == "practice-large"
    assert model.last["max_completion_tokens"] == 100
    headers = model.stats()["last"]["headers"]
    assert headers["authorization"] == "Bearer sk-practice-0123456789"


def test_nothing_of_the_upstream_shows(gate, model):
    """No real name, key, URL or price reaches a caller, in headers or bodies."""
    server = gate()
    for answer in (server.chat(), server.chat(stream=True), server.get("/v1/models"),
                   server.chat("x" * 100000)):
        seen = answer.body + repr(answer.headers).encode()
        for secret in (b"practice", b"sk-", f":{model.port}".encode(), b"price"):
            assert secret not in seen


def test_a_callers_bearer_token_is_neither_used_nor_sent_on(gate, model):
    answer = gate().chat(headers=[("Authorization", "Bearer sk-of-a-visitor")])
    assert answer.status == 200
    assert "visitor" not in json.dumps(model.stats()["last"]["headers"])


def test_the_models_are_the_aliases(gate, mode):
    answer = gate(mode, models={"other": {"model": "practice-small"}}).get("/v1/models")
    assert answer.status == 200
    assert answer.json["object"] == "list"
    assert [entry["id"] for entry in answer.json["data"]] == ["demo", "other"]


def test_an_alias_chooses_the_model_and_anything_else_the_first(gate, model):
    server = gate(models={"other": {"model": "practice-small"}})
    for alias, name in (("other", "practice-small"), ("demo", "practice-large"),
                        ("gpt-9", "practice-large")):
        answer = server.chat(fields={"model": alias})
        assert answer.status == 200 and model.last["model"] == name


def test_a_callers_own_limits_are_told_in_headers(gate):
    server = gate(limits={"visitor-day": {"per": "address", "unit": "calls", "window": "day", "max": 5},
                          "visitor-burst": None})
    for left in (4, 3):
        answer = server.chat()
        assert answer.header("X-RateLimit-Limit") == "5"
        assert answer.header("X-RateLimit-Remaining") == str(left)
        assert 0 < int(answer.header("X-RateLimit-Reset")) <= 86400
        assert f'"visitor-day";r={left}' in answer.header("RateLimit")
        assert '"visitor-day";q=5;w=86400' in answer.header("RateLimit-Policy")
        assert "site-day" not in repr(answer.headers)


@pytest.mark.parametrize("method, path, body, headers, status, code", [
    # F10: a side route that skips the limiter
    ("POST", "/v1/chat/completions/", HELLO, JSON, 404, "not_found"),
    ("POST", "/v1/Chat/Completions", HELLO, JSON, 404, "not_found"),
    ("POST", "/v1/embeddings", HELLO, JSON, 404, "not_found"),
    ("POST", "/v1/completions", HELLO, JSON, 404, "not_found"),
    ("POST", "/v1/models", HELLO, JSON, 405, "method_not_allowed"),
    ("POST", "", HELLO, JSON, 404, "not_found"),
    ("PUT", CHAT, HELLO, JSON, 405, "method_not_allowed"),
    ("GET", CHAT, None, [], 405, "method_not_allowed"),
    ("DELETE", CHAT, None, [], 405, "method_not_allowed"),
    ("GET", "/v1", None, [], 404, "not_found"),
    # the body
    ("POST", CHAT, HELLO, [("Content-Type", "text/plain")], 415, "unsupported_media_type"),
    ("POST", CHAT, HELLO, [], 415, "unsupported_media_type"),
    ("POST", CHAT, b"{", JSON, 400, "bad_json"),
    ("POST", CHAT, b"", JSON, 400, "bad_json"),
    ("POST", CHAT, b'{"messages":1,"messages":2}', JSON, 400, "bad_json"),
    ("POST", CHAT, b"[" * 5000, JSON, 400, "bad_json"),
    ("POST", CHAT, b" " * 3000000, JSON, 413, "body_too_large"),
    ("POST", CHAT, {}, JSON, 400, "bad_request"),
    ("POST", CHAT, {"messages": []}, JSON, 400, "bad_request"),
    ("POST", CHAT, {"messages": [{"role": "system", "content": "x"}]}, JSON, 400, None),
    ("POST", CHAT, {**HELLO, "tools": [{"type": "function"}]}, JSON, 400, "unsupported"),
    ("POST", CHAT, {**HELLO, "n": 5}, JSON, 400, "unsupported"),
    ("POST", CHAT, {"messages": [{"role": "user", "content": "x" * 60000}]}, JSON, 400, "too_long"),
])
def test_what_is_refused_before_anything_is_counted(gate, model, method, path, body, headers,
                                                    status, code):
    server = gate()
    raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    answer = server.open(method, path, raw, headers).answer()
    assert answer.status == status
    assert set(answer.error) == {"message", "type", "code", "param"}
    assert code is None or answer.code == code
    assert answer.error["message"].strip()
    assert (answer.header("Allow") is not None) == (status == 405)
    assert model.stats()["started"] == 0


@pytest.mark.parametrize("path", ["//v1/chat/completions", "/v1//chat/completions",
                                  "/v1/x/../chat/completions", "/v1/chat%2fcompletions",
                                  "/./v1/chat/completions"])
def test_f10_other_spellings_of_the_route_are_counted_or_refused(gate, model, path):
    """A web server may tidy a path before it hands it over; then it is the route itself."""
    server = gate(limits={"site-day": {"per": "everyone", "unit": "calls", "window": "day", "max": 1}})
    statuses = [server.open("POST", path, json.dumps(HELLO).encode(), JSON).answer().status
                for _ in range(3)]
    assert statuses in ([200, 429, 429], [404, 404, 404], [400, 400, 400])
    assert model.count == statuses.count(200)


def test_head_of_the_models_has_no_body(gate):
    answer = gate().open("HEAD", "/v1/models")
    assert answer.head() in (200, 405)


def test_f48_the_proxy_header_is_never_used(gate, model):
    answer = gate("cgi").chat(headers=[("Proxy", "http://127.0.0.1:9")])
    assert answer.status == 200 and model.count == 1


def test_f47_the_upstreams_error_text_reaches_nobody(gate, model):
    server, other = gate(), gate()  # the first model is then given a rest
    model.set(status=401, error_body='{"error":{"message":"Incorrect API key provided: sk-pract"}}')
    answer = server.chat()
    assert answer.status == 503 and answer.code == "upstream_refused"
    model.set(reset=True, error_in_200="middle", gap_ms=0)
    stream = other.chat(stream=True)
    assert "[DONE]" not in stream.events() and b"practice error" not in stream.body
    for one in (server, other):
        one.stop()  # so that every line is in the log
    for text in (answer.body.decode(), stream.body.decode(), server.log(), other.log()):
        assert "sk-" not in text and "Incorrect" not in text and "practice error" not in text


@pytest.mark.parametrize("settings, status, code", [
    ({"status": 500}, 502, "upstream_error"),
    ({"garbage": True}, 502, "upstream_error"),
    ({"status": 429, "retry_after": 7}, 503, "upstream_refused"),
    ({"redirect": "http://127.0.0.1:9/"}, 502, "upstream_error"),
    ({"error_in_200": "before"}, 502, "upstream_error"),
    ({"cut": "header"}, 502, "upstream_error")])
@pytest.mark.parametrize("stream", [False, True])
def test_trouble_upstream_has_a_proper_status_before_the_first_byte(gate, model, settings, status,
                                                                    code, stream):
    server = gate()
    model.set(**settings)
    answer = server.chat(stream=stream)
    assert (answer.status, answer.code) == (status, code)
    if status == 503:
        assert int(answer.header("Retry-After")) >= 1
    day = server.site.settled()
    assert model.stats()["started"] == day["admitted"] == 1, "F13: asked once, and accounted for once"
    assert day["given_back"] == (1 if status == 503 else 0), "F4: what may have been billed stays charged"


def admitted(server):
    answer = server.chat()
    return None if answer.status == 429 else answer


def test_an_upstream_that_is_not_there_costs_nothing(site, model):
    place = site(limits={"site-day": {"per": "everyone", "unit": "calls", "window": "day", "max": 1}})
    server = place.start()
    right = place.demo["url"]
    place.demo["url"] = "http://127.0.0.1:1/v1"
    place.write()
    for _ in range(3):
        # what is given back is there for the next caller within a second or so
        answer = until(lambda: admitted(server), 5, "room for one call")
        assert (answer.status, answer.code) == (502, "upstream_unreachable")
    place.demo["url"] = right
    place.write()
    until(lambda: server.chat().status == 200, 5, "room for one call")


def test_f52_another_pages_form_cannot_spend(gate, model):
    """A form's text/plain needs no preflight, so it is not taken."""
    server = gate()
    body = json.dumps(HELLO).encode()
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        answer = server.open("POST", CHAT, body, [("Content-Type", kind)]).answer()
        assert answer.status == 415
    assert model.count == 0


def test_sigterm_drains_and_nothing_is_left(gate, mode):
    server = gate(mode)
    assert server.chat().status == 200
    pids = server.gateways()
    server.stop()
    assert not any(alive(pid) for pid in pids)
