"""A second call for one request (F13): where nothing can have been billed, before any byte, while the
caller is there, and never a third; to the same model where that can help, or to its fallback."""
import concurrent.futures
import contextlib
import email.utils
import json
import time

import pytest

from harness import PATIENCE, Timer, limit, until
from upstream import certificate, plain

BARE = {"overhead-per-call": 0, "overhead-per-message": 0, "max-output-tokens": 40, "breaker-after": 2,
        "breaker-pause": "1h"}
ASK = "0123456789"
USAGE = {"prompt_tokens": 9, "completion_tokens": 8, "total_tokens": 17}


def status(line, headers=b"", code="some_code"):
    return plain(line, json.dumps({"error": {"message": "no", "type": "x", "code": code}}).encode(), headers)


def good(send, head):
    """Both ways at once: whichever was asked for."""
    answer = {"choices": [{"index": 0, "message": {"content": "Salt"}, "delta": {"content": "Salt"},
                           "finish_reason": "stop"}], "usage": USAGE}
    if b"text/event-stream" in head:
        body = b"data: " + json.dumps(answer).encode() + b"\n\ndata: [DONE]\n\n"
        plain(body=body, kind=b"text/event-stream")(send, head)
    else:
        plain(body=json.dumps(answer).encode())(send, head)


def date(seconds):
    return email.utils.formatdate(time.time() + seconds, usegmt=True).encode()


def slow_down(value=b"1"):
    return status(b"429 Slow Down", b"Retry-After: " + value + b"\r\n")


BUSY = slow_down()
BUSY_LONGER = slow_down(b"2")
LIMITS = {"budget": limit("everyone", "tokens", "day", 1000000), "spend": limit("everyone", "cost", "day", "$1.00"),
          "site-day": limit("everyone", "calls", "day", 1000)}


@pytest.fixture
def start(site):
    def start(url, mode="spawned", limits=None, models=None, server=None, **demo):
        return site(limits={**LIMITS, **(limits or {})}, demo={**BARE, "url": url, **demo},
                    models=models, server=server).start(mode)
    return start


def used(server, *names):
    return tuple(server.site.used(name) for name in names or ("site-day", "budget"))


def lines(server, word):
    return [line for line in server.log().splitlines() if word in line]


# ---- the same model once more ----

@pytest.mark.parametrize("script", [BUSY, slow_down(b"0"), "date"])
@pytest.mark.parametrize("stream", [False, True])
def test_f13_a_model_that_is_busy_for_a_second_is_asked_once_more(start, upstream, mode, script, stream):
    api = upstream(slow_down(date(2)) if script == "date" else script, good)
    server = start(api.url, mode)
    answer = server.chat(ASK, stream=stream)
    assert answer.status == 200 and answer.text == "Salt"
    if script is BUSY:
        assert answer.pieces[0][0] >= 1
    assert api.count == 2
    day = server.site.settled()
    assert (day["admitted"], day["settled"], day["given_back"], day["unknown"]) == (1, 1, 0, 0)
    assert used(server) == (1, 17)
    until(lambda: lines(server, " calls=2"), 5, "a line")
    assert "code=ok" in lines(server, " calls=2")[0]
    assert server.get("/status").json["available"], "what went well closes the breaker"


@pytest.mark.parametrize("second, code, charged", [
    (BUSY, "upstream_refused", (0, 0)), (status(b"404 Not Found"), "upstream_error", (0, 0)),
    (status(b"500 Oops"), "upstream_error", (1, 50)), (status(b"403 No"), "upstream_refused", (1, 50))])
@pytest.mark.parametrize("stream", [False, True])
def test_f13_what_is_told_and_charged_is_what_came_of_the_second(start, upstream, second, code, charged, stream):
    api = upstream(BUSY, second, good)
    server = start(api.url, **{"breaker-pause": "10s"})
    answer = server.chat(ASK, stream=stream)
    assert answer.code == code
    assert (answer.header("x-should-retry") == "false") == (charged != (0, 0))
    assert api.count == 2
    server.site.settled()
    assert used(server) == charged


@pytest.mark.parametrize("stream", [False, True])
def test_f13_a_connection_that_failed_is_made_once_more(site, upstream, stream):
    place = site(init=False, limits=LIMITS)
    path, context = certificate(place.directory, "right")
    api = upstream(None, good, tls=context)
    place.demo.update({**BARE, "url": api.url, "ca-file": path})
    place.write()
    server = place.init().start()
    assert server.chat(ASK, stream=stream).text == "Salt"
    assert (api.connections, api.count) == (2, 1)
    assert place.settled()["admitted"] == 1
    assert used(server) == (1, 17)


def test_f13_nobody_asks_for_a_caller_who_has_left(start, upstream, mode):
    api = upstream(BUSY_LONGER, good)
    server = start(api.url, mode)
    call = server.begin(ASK, parts=True)
    until(lambda: api.closed == 1, 10, "the first call's end")
    call.close()
    day = server.site.settled()
    assert (day["admitted"], day["given_back"]) == (1, 1)
    until(lambda: server.site.stats_of("open_streams") == 0, 5, "a free place")
    assert api.count == 1
    assert used(server) == (0, 0)


def test_f13_not_after_a_heartbeat(start, upstream):
    """It would fall due in the wait, and then trouble has no status any more."""
    api = upstream(BUSY_LONGER, good)
    answer = start(api.url, server={"heartbeat": "1s"}).chat(ASK, stream=True)
    assert (answer.status, answer.code) == (503, "upstream_refused")
    assert api.count == 1


def test_f13_not_after_a_byte(start, upstream):
    def late(send, head):
        late.ended.wait(1.5)
        BUSY(send, head)

    api = upstream(late, good)
    late.ended = api.ended
    answer = start(api.url, server={"heartbeat": "1s"}).chat(ASK, stream=True)
    assert answer.status == 200 and answer.body.startswith(b":")
    assert json.loads(answer.events()[-1])["error"]["code"] == "upstream_refused"
    assert api.count == 1


def test_f13_the_total_timeout_leaves_no_room_for_a_second(start, upstream):
    api = upstream(BUSY, good)
    assert start(api.url, **{"total-timeout": "1s"}).chat(ASK).code == "upstream_refused"
    assert api.count == 1


def test_f13_the_total_timeout_bounds_both(start, upstream):
    def hang(_send, _head):
        hang.ended.wait(20)

    api = upstream(BUSY, hang)
    hang.ended = api.ended
    server = start(api.url, **{"total-timeout": "3s"})
    timer = Timer()
    answer = server.chat(ASK)
    assert answer.code == "upstream_timeout" and answer.header("x-should-retry") == "false"
    assert timer.within(4) and answer.pieces[-1][0] > 2.5
    assert api.count == 2


def test_f13_not_past_a_breaker_that_has_opened_meanwhile(start, upstream):
    api = upstream(BUSY_LONGER, status(b"401 Unauthorized"), good)
    server = start(api.url)
    call = server.begin(ASK)
    until(lambda: api.count == 1, 10, "the first request")
    assert server.chat(ASK).code == "upstream_refused"
    assert call.answer().code == "upstream_refused"
    assert api.count == 2


def test_a_stop_does_not_wait_for_a_second_call(start, upstream):
    api = upstream(BUSY_LONGER, good)
    server = start(api.url, "external", server={"stop-timeout": "2s"})
    call = server.begin(ASK)
    until(lambda: api.count == 1, 10, "the first request")
    server.gateway.terminate()
    assert server.gateway.wait(5 * PATIENCE) == 0
    with contextlib.suppress(ConnectionError):
        call.answer()
    assert "did not end in time" not in server.log()


# ---- the fallback ----

def both(upstream, *first, other=(good,)):
    return upstream(*first), upstream(*other)


def fallback(other, **more):
    return {"fallback": "other", "models": {"other": {"url": other.url, "fallback": None, **more}}}


UNBILLED = {
    "F46 401": status(b"401 Unauthorized"), "F46 402": status(b"402 Payment Required"),
    "404": status(b"404 Not Found"), "405": status(b"405 Not Allowed"), "F46 429": status(b"429 Slow Down"),
    "F46 429 in a second": BUSY, "refused": None,
}
BILLED = {
    "400": status(b"400 Bad Request"), "403": status(b"403 Forbidden"), "500": status(b"500 Oops"),
    "503": status(b"503 No", b"Retry-After: 1\r\n"), "529": status(b"529 Overloaded"), "a cut": plain(length=9),
    "no JSON": plain(body=b"sorry"), "F24": plain(body=b'{"error":{"code":"insufficient_quota"}}'),
}
DEAR = {"price-input": "$10.00", "price-output": "$20.00"}
DEAR_NANO = 9 * 10_000 + 8 * 20_000  # USAGE at these prices


@pytest.mark.parametrize("fault", UNBILLED)
@pytest.mark.parametrize("stream", [False, True])
def test_f13_the_fallback_answers_where_nothing_can_have_been_billed(site, start, upstream, fault, stream):
    api, other = both(upstream, UNBILLED[fault])
    url = api.url.replace("http:", "https:") if fault == "refused" else api.url
    server = start(url, **fallback(other, **DEAR))
    answer = server.chat(ASK, stream=stream)
    assert answer.status == 200 and answer.text == "Salt"
    assert {one["model"] for one in (answer.chunks() if stream else [answer.json])} == {"other"}
    assert other.count == 1 and api.count == (fault != "refused")
    day = server.site.settled()
    assert (day["admitted"], day["settled"], day["given_back"], day["unknown"]) == (1, 1, 0, 0)
    assert used(server) == (1, 17) and server.site.stats()["days"][-1]["cost_nano"] == DEAR_NANO
    line = until(lambda: lines(server, " calls=2"), 5, "a line")[0]
    assert "code=ok" in line and "model=other" in line
    assert [one for one in lines(server, "level=error") if "model demo" in one], "the owner hears of the first"


def test_the_fallback_in_every_mode(start, upstream, mode):
    api, other = both(upstream, status(b"401 Unauthorized"))
    server = start(api.url, mode, **fallback(other))
    answer = server.chat(ASK)
    assert (answer.status, answer.json["model"]) == (200, "other")
    server.site.settled()
    assert used(server) == (1, 17)


@pytest.mark.parametrize("fault", BILLED)
@pytest.mark.parametrize("stream", [False, True])
def test_f13_no_fallback_where_something_may_have_been_billed(start, upstream, fault, stream):
    api, other = both(upstream, BILLED[fault])
    server = start(api.url, **fallback(other))
    assert server.chat(ASK, stream=stream).status in (502, 503)
    assert (api.count, other.count) == (1, 0)
    server.site.settled()
    assert used(server) == (1, 50)


def test_f46_while_the_breaker_is_open_the_fallback_is_asked_at_once(start, upstream):
    api, other = both(upstream, status(b"401 Unauthorized"))
    server = start(api.url, **fallback(other))
    for n in range(1, 4):
        assert server.chat(ASK).json["model"] == "other"
        assert (api.count, other.count) == (1, n)
    assert server.get("/status").json["available"]
    assert len(lines(server, "event=breaker_open model=demo")) == 1
    until(lambda: len(lines(server, "code=ok model=other")) == 3, 5, "a line for each")
    assert [line.rpartition(" ")[2] for line in lines(server, "code=ok model=other")] == ["calls=2", "calls=1", "calls=1"]
    server.site.settled()
    assert used(server) == (3, 51)


def test_f46_each_model_has_its_own_breaker(start, upstream):
    """Both fail, the second may have been billed: what is told and charged is what came of that."""
    api, other = both(upstream, status(b"401 Unauthorized"), other=(status(b"500 Oops"),))
    server = start(api.url, **fallback(other))
    for _ in range(2):
        answer = server.chat(ASK)
        assert (answer.code, answer.header("x-should-retry")) == ("upstream_error", "false")
        server.site.settled()
    assert (api.count, other.count) == (1, 2)
    assert used(server) == (2, 100)
    until(lambda: server.get("/status").json["code"] == "upstream_paused", 5, "both breakers")
    answer = server.chat(ASK)
    assert answer.code == "upstream_paused" and int(answer.header("Retry-After")) > 3500
    assert (api.count, other.count) == (1, 2)


@pytest.mark.parametrize("opens", [False, True])
def test_f13_a_fallback_that_does_not_fit_leaves_the_first_failure(start, upstream, opens):
    """Before the call, while the breaker is open, and after it."""
    api, other = both(upstream, status(b"401 Unauthorized"))
    server = start(api.url, limits={"budget": limit("everyone", "tokens", "day", 50)},
                   **fallback(other, **{"max-output-tokens": 41}))
    answer = server.chat(ASK)
    assert answer.code == "upstream_refused" and int(answer.header("Retry-After")) > 0
    assert (api.count, other.count) == (1, 0)
    day = server.site.settled()
    assert (day["admitted"], day["given_back"]) == (1, 1)
    assert used(server) == (0, 0)
    if opens:
        answer = server.chat(ASK)
        assert answer.code == "upstream_paused" and answer.header("RateLimit") is None
        assert other.count == 0


def test_f1_many_at_once_never_go_over_a_limit_by_a_fallback(site, upstream):
    """Each is admitted with 50 tokens, and needs 100 at the fallback, which tells no usage."""
    def silent(send, head):
        plain(body=b'{"choices":[{"index":0,"message":{"content":"Salt"},"finish_reason":"stop"}]}')(send, head)

    api, other = both(upstream, status(b"404 Not Found"), other=(silent,))
    server = site(limits={**LIMITS, "budget": limit("everyone", "tokens", "day", 550)},
                  demo={**BARE, "url": api.url, "breaker-after": 100, "fallback": "other"},
                  models={"other": {"url": other.url, "fallback": None, "max-output-tokens": 90}}).start(procs=3)
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        answers = [one.result() for one in [pool.submit(server.chat, ASK) for _ in range(20)]]
    good_ones = [answer for answer in answers if answer.status == 200]
    assert {answer.code for answer in answers if answer.status != 200} <= {"upstream_error", "site_limit"}
    day = server.site.settled()
    assert 1 <= len(good_ones) == other.count == day["unknown"] <= 5
    assert day["admitted"] == api.count
    assert used(server) == (other.count, 100 * other.count)


def test_f13_there_is_no_third_call(start, upstream):
    api, other = both(upstream, BUSY, other=(BUSY, good))
    server = start(api.url, **fallback(other))
    assert server.chat(ASK).code == "upstream_refused"
    assert (api.count, other.count) == (1, 1)
    server.site.settled()
    assert used(server) == (0, 0)


def test_f13_the_fallback_is_bounded_by_the_first_ones_time(start, upstream):
    def hang(_send, _head):
        hang.ended.wait(20)

    api, other = both(upstream, status(b"404 Not Found"), other=(hang,))
    hang.ended = other.ended
    server = start(api.url, **{"total-timeout": "2s"}, **fallback(other, **{"total-timeout": "1m"}))
    timer = Timer()
    assert server.chat(ASK).code == "upstream_timeout"
    assert timer.within(4)


def test_f13_no_fallback_for_a_caller_who_has_left(start, upstream):
    def late(send, head):
        late.go.wait(10)
        status(b"401 Unauthorized")(send, head)

    api, other = both(upstream, late)
    late.go = api.ended
    server = start(api.url, **fallback(other))
    call = server.begin(ASK, parts=True)
    until(lambda: api.count == 1, 10, "the first request")
    call.close()
    server.site.settled()
    late.go.set()
    assert other.count == 0


def test_an_alias_that_is_a_fallback_is_a_model_like_others(start, upstream):
    api, other = both(upstream, good, other=(status(b"401 Unauthorized"),))
    server = start(api.url, **fallback(other))
    assert server.chat(ASK, fields={"model": "other"}).code == "upstream_refused"
    assert (api.count, other.count) == (0, 1)
