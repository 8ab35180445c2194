"""OpenAI's own client for Node against the gateway through lighttpd: answers, each error as the
client's own class, how often it asks again by itself, and what it costs when it leaves."""
import pytest

from harness import free_port, limit, until

TEXT = "The sea is salt because"
ONE = {"visitor-day": limit("address", "calls", "day", 1)}


def lines(server):
    """How many requests for an answer have been answered."""
    return server.log().count(" code=")


def answered(server, n):
    """Whether so many have been, and no more: the line of the last is written after its answer."""
    until(lambda: lines(server) >= n, 5, "the lines")
    return lines(server) == n


def test_a_plain_answer(gate, client, model):
    model.set(prompt_tokens=9, completion_tokens=8)
    said = client.ask(gate())["answer"]
    assert said["text"].startswith(TEXT) and said["model"] == "demo"
    assert said["usage"]["total_tokens"] == 17
    assert model.count == 1


def test_a_streamed_answer_arrives_as_it_is_made(gate, client, model):
    model.set(chunks=8, gap_ms=100, prompt_tokens=9, completion_tokens=8)
    said = client.ask(gate(), body={"stream": True, "stream_options": {"include_usage": True}})
    assert "error" not in said and "".join(piece["text"] for piece in said["pieces"]).startswith(TEXT)
    assert len(said["pieces"]) >= 7
    assert said["pieces"][-1]["ms"] - said["pieces"][0]["ms"] > 500, "the stream was held back"
    assert said["usage"]["total_tokens"] == 17


def test_the_models(gate, client):
    assert client.ask(gate(), what="models")["answer"] == ["demo"]


@pytest.mark.parametrize("path", ["/ai/v1", "/ai/v1/"])
def test_a_base_url_below_a_prefix(gate, client, path):
    assert client.ask(gate(), path=path)["answer"]["text"].startswith(TEXT)


# ---- errors ----

PRACTICE_500 = {"status": 500}
HANG = {"hang": True}
SHORT = {"demo": {"first-byte-timeout": "1s"}}

# What is sent or set, and what the client makes of the answer.
ERRORS = {
    "a key that is not the site's": (
        {"apiKey": "pg_" + "a" * 32}, {}, {}, {}, "AuthenticationError", 401, "unauthorized"),
    "no key where one is required": (
        {}, {}, {"options": {"require": "key"}}, {}, "AuthenticationError", 401, "unauthorized"),
    "tools": ({}, {"tools": [{"type": "function", "function": {"name": "f"}}]}, {}, {},
              "BadRequestError", 400, "unsupported"),
    "a system message": ({}, {"messages": [{"role": "system", "content": "x"}]}, {}, {},
                         "BadRequestError", 400, "unsupported"),
    "a message that is too long": ({}, {"messages": [{"role": "user", "content": "x" * 2001}]}, {}, {},
                                   "BadRequestError", 400, "too_long"),
    "no messages": ({}, {"messages": []}, {}, {}, "BadRequestError", 400, "bad_request"),
    "a page of another site": (
        {"defaultHeaders": {"Origin": "https://evil.example"}}, {}, {}, {},
        "PermissionDeniedError", 403, "forbidden_origin"),
    "a path that is not there": ({"path": "/ai/v2"}, {}, {}, {}, "NotFoundError", 404, "not_found"),
    "a limit": ({}, {}, {"limits": {"visitor-day": limit("address", "calls", "day", 0)}}, {},
                "RateLimitError", 429, "address_limit"),
    "the model fails": ({"maxRetries": 0}, {}, {}, PRACTICE_500, "InternalServerError", 502, "upstream_error"),
    "the model is silent": ({"maxRetries": 0}, {}, SHORT, HANG, "InternalServerError", 504, "upstream_timeout"),
    "the model refuses the owner's key": (
        {"maxRetries": 0}, {}, {}, {"status": 401}, "InternalServerError", 503, "upstream_refused"),
}


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("why", ERRORS)
def test_each_error_is_one_of_the_clients_own(site, client, model, why, stream):
    options, body, place, practice, name, status, code = ERRORS[why]
    model.set(**practice)
    said = client.ask(site(**place).start(), body={**body, "stream": stream}, **options)
    assert "answer" not in said, said
    error = said["error"]
    assert (error["class"], error["status"], error["code"]) == (name, status, code)
    assert error["message"] and "undefined" not in error["message"]


def test_a_paused_site(site, client, model):
    place = site()
    server = place.start()
    place.run("pause")
    error = client.ask(server, maxRetries=0)["error"]
    assert (error["class"], error["status"], error["code"]) == ("InternalServerError", 503, "paused")
    place.run("resume")
    assert "answer" in client.ask(server) and model.count == 1


def test_trouble_in_the_middle_of_a_stream_is_an_error_too(gate, client, model):
    model.set(error_in_200="middle")
    said = client.ask(gate(), body={"stream": True})
    assert said["pieces"], "what had come was shown"
    assert said["error"]["class"] == "APIError" and said["error"]["code"] == "upstream_error"
    assert model.count == 1


# ---- asking again ----

def test_a_short_wait_is_honoured(site, client, model):
    server = site(limits={"visitor-burst": limit("address", "calls", "4s", 1)}).start()
    assert "answer" in client.ask(server)
    said = client.ask(server)
    assert "answer" in said, said
    assert 500 < said["ms"] < 12000, "it waited as long as it was told"
    assert model.count == 2
    assert answered(server, 3), "one refusal between the two"


def test_f51_a_long_wait_is_not_tried_again(site, client, model):
    server = site(limits=ONE).start()
    assert "answer" in client.ask(server)
    said = client.ask(server)
    assert said["error"]["class"] == "RateLimitError" and said["ms"] < 2000
    assert answered(server, 2) and model.count == 1


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
def test_f51_a_503_for_long_is_not_tried_again(gate, client, model, stream):
    """The API has no quota left for two minutes: the client hears it at once, once."""
    model.set(status=429, retry_after=120)
    server = gate()
    error = client.ask(server, body={"stream": stream}, maxRetries=2)["error"]
    assert (error["class"], error["status"], error["code"]) == ("InternalServerError", 503, "upstream_refused")
    assert answered(server, 1) and model.count == 1
    error = client.ask(server, body={"stream": stream}, maxRetries=2)["error"]
    assert (error["status"], error["code"]) == (503, "upstream_paused")
    assert answered(server, 2) and model.count == 1, "nor while the gateway gives the API a rest"


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
def test_a_body_that_is_too_large_is_sent_once(gate, client, model, stream):
    server = gate()
    body = {"messages": [{"role": "user", "content": "x" * 70000}], "stream": stream}
    error = client.ask(server, body=body, maxRetries=2)["error"]
    assert (error["class"], error["status"], error["code"]) == ("APIError", 413, "body_too_large")
    assert error["message"] and "undefined" not in error["message"]
    assert answered(server, 1) and model.stats()["started"] == 0


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("why", ["the model fails", "the model is silent"])
def test_f51_what_may_have_been_billed_is_asked_once(site, client, model, why, stream):
    """502 and 504: the client asks again by itself, twice, unless it is told not to."""
    _, body, place, practice, name, _, _ = ERRORS[why]
    model.set(**practice)
    server = site(**place).start()
    said = client.ask(server, body={**body, "stream": stream}, maxRetries=2)
    assert said["error"]["class"] == name
    assert answered(server, 1) and model.count == 1


def test_what_cannot_have_been_billed_is_asked_again(site, client):
    """By itself, as it would after any 502 that does not forbid it."""
    server = site(demo={"url": f"http://127.0.0.1:{free_port()}/v1"}).start()
    error = client.ask(server, maxRetries=1)["error"]
    assert (error["status"], error["code"]) == (502, "upstream_unreachable")
    assert answered(server, 2)


# ---- keys, and leaving ----

def test_a_key_is_the_clients_api_key(site, client, model):
    place = site(options={"require": "key"})
    server = place.start()
    token = place.run("keys", "add", "ann").split()[0]
    assert token.startswith("pg_")
    assert "answer" in client.ask(server, apiKey=token)
    place.run("keys", "revoke", "ann")
    assert client.ask(server, apiKey=token)["error"]["class"] == "AuthenticationError"
    assert model.count == 1


@pytest.mark.parametrize("when", ["in the middle of a stream", "before the first token"])
def test_f36_an_abort_ends_the_spending(site, client, model, mode, when):
    """At the latest with the next heartbeat. Not for a plain answer: lighttpd 1.4.69 can see no end
    of a request that was there at once before it sends something (tests/e2e/test_leaving.py)."""
    server = site().start(mode)
    if when == "in the middle of a stream":
        model.set(chunks=600, gap_ms=100)
        client.start(server, body={"stream": True}, abort_after=3)
    else:
        model.set(hang=True)
        client.start(server, body={"stream": True}, abort_ms=1000)
    said = client.result()
    assert said["aborted"] and said.get("error", {}).get("class", "APIUserAbortError") == "APIUserAbortError"
    until(lambda: model.stats()["aborted"] == 1, 7, "the end of the call")
    until(lambda: "code=gone" in server.log(), 3, "the line of the log")
    assert model.count == 1 and server.site.used("site-day") == 1
