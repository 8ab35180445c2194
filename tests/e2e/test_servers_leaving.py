"""F36 through every web server: the caller is gone, and the model must not go on. How soon a server
closes its connection to pennygate is its own affair; from then on the call upstream has a second.

    lighttpd, nginx   at once
    uhttpd            at once, by killing the program: nothing is settled, all stays reserved
    Apache, Caddy     when two or four more pieces have been sent: in a stream's silence as many
                      heartbeats (a second each here); before a plain answer never, so that the call is
                      paid for and settled by what it used

Callers send in two parts, for lighttpd: test_leaving.py says why. And those who do not leave but no
longer read are cut off by write-timeout."""
import pytest

from harness import CHAT, SERVERS, until
from servers import WEB, why_not

HEARTBEAT = 1
JSON = [("Content-Type", "application/json")]


@pytest.fixture(params=WEB)
def web(request, site):
    reason = why_not(request.param)
    if reason:
        pytest.skip(reason)
    place = site(options={"mount": SERVERS[request.param].mount},
                 server={"heartbeat": f"{HEARTBEAT}s", "write-timeout": "2s", "streams": 2})
    return place.start(request.param)


def ended(web, model, kind):
    """Settled once, and the place is free."""
    day = web.site.day() if web.kills else web.site.settled()
    assert {name: day[name] for name in ("admitted", "settled", "unknown", "given_back")} == {
        "admitted": 1, "settled": 0, "unknown": 0, "given_back": 0, **({} if web.kills else {kind: 1})}
    until(lambda: web.site.stats_of("open_streams") == 0, 3, "a free place")
    assert web.site.used("site-day") == 1
    model.set(reset=True, gap_ms=0)
    assert web.chat().status == 200, "the next one"


def leave(web, model, stream, until_text=None):
    call = web.begin(stream=stream, parts=True)
    if until_text:
        call.wait_for(until_text)
    else:
        until(lambda: model.stats()["open"] == 1, 5, "the call upstream")
    call.close()


def test_f36_in_silence_before_the_first_token(web, model):
    """Before our header is out, and with nothing of the model's but its header."""
    model.set(header_first=True, first_ms=60000)
    leave(web, model, True)
    until(lambda: model.stats()["aborted"] == 1, 1 + (web.leaving_seen_after + 1) * HEARTBEAT, "the abort")
    ended(web, model, "unknown")


def test_f36_in_the_middle(web, model):
    model.set(size=6000, chunks=600, gap_ms=100)
    leave(web, model, True, b'"content":"')
    until(lambda: model.stats()["aborted"] == 1, 1 + web.leaving_seen_after * 0.1, "the abort")
    ended(web, model, "unknown")


def test_f36_in_silence_in_the_middle(web, model):
    """After some text nothing more comes."""
    model.set(chunks=2, gap_ms=60000)
    leave(web, model, True, b'"content":"')
    until(lambda: model.stats()["aborted"] == 1, 1 + (web.leaving_seen_after + 1) * HEARTBEAT, "the abort")
    ended(web, model, "unknown")


def test_f36_before_a_plain_answer(web, model):
    if web.leaving_seen_after:
        model.set(first_ms=1500, prompt_tokens=9, completion_tokens=8)
        leave(web, model, False)
        until(lambda: model.stats()["open"] == 0, 5, "the model's answer")
        assert model.stats()["aborted"] == 0
        ended(web, model, "settled")
    else:
        model.set(hang=True)
        leave(web, model, False)
        until(lambda: model.stats()["aborted"] == 1, 1, "the abort")
        ended(web, model, "unknown")


def test_a_caller_that_does_not_read_is_cut_off(web, model):
    """Whatever the servers can hold, and then write-timeout."""
    model.set(size=24000000, chunks=1200, gap_ms=0)
    call = web.begin(stream=True)
    until(lambda: model.stats()["open"] == 1, 5, "the call upstream")
    until(lambda: model.stats()["open"] == 0, 12, "the end of a stream that nobody reads")
    until(lambda: web.site.stats_of("open_streams") == 0, 5, "a free place")
    assert web.site.used("site-day") == 1
    call.close()
    model.set(reset=True, gap_ms=0)
    assert web.chat().status == 200


def test_bodies_that_never_come_leave_room_for_others(web, model):
    """More of them than there are workers. A server either waits for the body itself, or pennygate
    gives a request five seconds for all of it."""
    slow = [web.open("POST", CHAT, b"{", [*JSON, ("Content-Length", "100")]) for _ in range(6)]
    until(lambda: web.chat().status == 200, 8, "an answer for somebody else")
    assert model.count == 1 and web.site.day()["admitted"] == 1
    for call in slow:
        call.close()


def test_uhttpd_kills_at_its_timeout_and_what_was_reserved_stays(site, model):
    """The answer ends as if it were whole, but for [DONE]; the place is free at once."""
    place = site(options={"mount": SERVERS["uhttpd"].mount})
    server = place.start("uhttpd", changes=[("script_timeout '200'", "script_timeout '2'")])
    model.set(size=6000, chunks=600, gap_ms=100)
    answer = server.chat(stream=True)
    assert answer.status == 200 and answer.text and "[DONE]" not in answer.events()
    until(lambda: model.stats()["aborted"] == 1, 1, "the abort")
    until(lambda: place.stats_of("open_streams") == 0, 1, "a free place")
    assert place.used("site-day") == 1
    model.set(chunks=2, gap_ms=0)
    assert server.chat().status == 200
