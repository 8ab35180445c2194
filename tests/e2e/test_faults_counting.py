"""Counting and money: one test for each kind of fault, F1 to F12 of those that reach the main
job. Figures are compared with what the practice model really received."""
import functools
import os
import signal
import time

import pytest

from harness import alive, limit, together, until

# No overhead, so that a worst case is the message's bytes and the cap on the answer.
BARE = {"overhead-per-call": 0, "overhead-per-message": 0}


def statuses(answers):
    return sorted({(a.status, a.code if a.status != 200 else None) for a in answers}, key=str)


def test_f1_check_then_act(gate, model):
    """A budget for one call, 20 parallel requests: exactly one is admitted."""
    model.set(first_ms=100)
    server = gate(limits={"site-day": limit("everyone", "calls", "day", 1)}, server={"streams": 32},
                  procs=2)
    answers = together([server.chat] * 20)
    assert [a.status for a in answers].count(200) == 1
    assert statuses(answers) == [(200, None), (429, "site_limit")]
    assert model.count == 1


def test_f2_no_short_cut_for_those_who_have_plenty(site, model):
    """1000 tokens, 200 requests of 50 from 24 callers at once: exactly 20 are admitted."""
    model.set(prompt_tokens=10, completion_tokens=40)
    place = site(demo={**BARE, "max-output-tokens": 40}, server={"streams": 32},
                 limits={"budget": limit("everyone", "tokens", "day", 1000)})
    server = place.start(procs=2)
    answers = together([lambda: server.chat(messages="0123456789")] * 200, 24)
    assert [a.status for a in answers].count(200) == 20
    assert statuses(answers) == [(200, None), (429, "site_limit")]
    assert model.count == 20
    assert place.used("budget") == 1000


def test_f3_aborted_streams_leave_neither_debt_nor_free_ride(site, model):
    """50 streams dropped after a chunk stay charged in full, and the next call counts as usual."""
    model.set(chunks=200, gap_ms=20, prompt_tokens=10, completion_tokens=20)
    place = site(demo=BARE, server={"streams": 64},
                 limits={"budget": limit("everyone", "tokens", "day", 100000)})
    server = place.start()
    calls = [server.begin("0123456789", stream=True) for _ in range(50)]
    for call in calls:
        call.wait_for(b'"content":"')
        call.close()
    until(lambda: model.stats()["aborted"] == 50, 10, "the end of all calls upstream")
    until(lambda: place.stats_of("open_streams") == 0, 5, "the end of all streams")
    model.set(chunks=2, gap_ms=0)
    assert server.chat("0123456789").status == 200
    until(lambda: place.used("budget") == 50 * 110 + 30, 5, "the sum of what was settled")
    day = place.day()
    assert (day["admitted"], day["unknown"], day["settled"]) == (51, 50, 1)


def test_f4_leaving_before_the_usage_does_not_dodge_the_cost(site, model):
    model.set(chunks=20, gap_ms=10, prompt_tokens=10, completion_tokens=5)
    place = site(demo=BARE, limits={"budget": limit("everyone", "tokens", "day", 100000)})
    server = place.start()
    model.set(first_ms=0, chunks=20, gap_ms=20)
    call = server.begin("0123456789", stream=True)
    call.wait_for(b"Over ag")
    call.close()
    until(lambda: model.stats()["aborted"] == 1, 5, "the abort")
    assert place.settled()["unknown"] == 1
    assert place.used("budget") == 110


def test_f5_the_number_enforced_is_the_number_shown(site, model):
    place = site(limits={"visitor-day": limit("address", "calls", "day", 10),
                         "site-day": limit("everyone", "calls", "day", 1000)})
    server = place.start()
    for n in range(1, 11):
        answer = server.chat()
        assert answer.status == 200
        assert answer.header("X-RateLimit-Remaining") == str(10 - n)
        assert place.used("site-day") == n == place.day()["admitted"]
    refused = server.chat()
    assert refused.status == 429
    assert refused.header("X-RateLimit-Remaining") == "0"
    assert 'r=0' in refused.header("RateLimit")
    assert place.used("site-day") == 10 == model.count


def test_f6_a_money_limit_without_a_price_admits_nothing(site, model):
    spend = {"spend": limit("everyone", "cost", "day", "$5.00")}
    place = site(limits=spend, demo={"price-input": None, "price-output": None})
    assert place.run("check", check=False).returncode != 0
    answer = place.start().chat()
    assert (answer.status, answer.code) == (503, "configuration")
    assert model.count == 0
    free = site(limits=spend, demo={"price-input": "0", "price-output": "0"})
    assert free.start().chat().status == 200


def test_f7_a_maximum_of_nothing_admits_nothing(gate, model):
    for name, one in (("site-day", limit("everyone", "calls", "day", 0)),
                      ("visitor-day", limit("address", "calls", "day", 0)),
                      ("visitor-at-once", limit("address", "concurrent", None, 0))):
        answer = gate(limits={name: one}).chat()
        assert answer.status == 429, name
        assert int(answer.header("Retry-After")) > 0
    assert model.count == 0


def test_f9_the_first_caller_ever_is_under_the_same_rule(gate, model):
    server = gate(limits={"visitor-day": limit("address", "calls", "day", 1)})
    for last in (21, 22, 23):
        assert server.chat(source=f"127.0.0.{last}").status == 200
        assert server.chat(source=f"127.0.0.{last}").code == "address_limit"
    assert model.count == 3


def test_f11_refusals_use_nothing_up(site, model):
    place = site(limits={"visitor-day": limit("address", "calls", "day", 2)})
    server = place.start()
    assert [server.chat().status for _ in range(2)] == [200, 200]
    before = place.data()
    answers = [server.chat() for _ in range(100)]
    assert statuses(answers) == [(429, "address_limit")]
    assert place.used("site-day") == 2
    assert place.day()["refused"]["address"] == 100
    assert server.chat(source="127.0.0.2").status == 200
    assert place.data() != before, "the comparison can fail"


@pytest.mark.slow
@pytest.mark.parametrize("reason, spends, callers, streams", [
    ("concurrent_limit", ["held"], ["held"], (False, True)),
    ("address_limit", ["known"] * 2, ["known"], (False, True)),
    ("site_limit", ["known"] * 2 + ["other"] * 2, ["known", "other", *(f"stranger{n}" for n in range(48))], (False,)),
    ("paused", [], ["known", "other"], (False, True)),
])
def test_ten_thousand_refusals_leave_the_data_file_as_it_is(site, model, reason, spends, callers, streams):
    """10,000 of each kind, by callers who are known and by strangers. The board is folded into the
    history once a minute of a process's life, so no process here gets so old."""
    place = site(limits={"visitor-day": limit("address", "calls", "day", 2),
                         "visitor-at-once": limit("address", "concurrent", None, 1),
                         "site-day": limit("everyone", "calls", "day", 4)}, demo={"total-timeout": "300s"})
    known = {"held": "127.0.0.7", "known": "127.0.0.8", "other": "127.0.0.9"}
    sources = [known.get(who, f"127.0.1.{10 + n}") for n, who in enumerate(callers)]
    server, born = place.start(procs=2), time.monotonic()
    calls = []
    if "held" in spends:
        model.set(chunks=140, gap_ms=1000)
        calls = [server.begin(stream=True, source=known["held"])]
        calls[0].wait_for(b'"content":"')
    else:
        assert all(server.chat(source=known[who]).status == 200 for who in spends)
        place.settled()
    if reason == "paused":
        place.run("pause")
    before, size, admitted, count = place.data(), place.data_file.stat().st_size, model.count, 0
    requests = [{"source": source, "stream": stream} for source in sources for stream in streams]
    while count < 10000:
        answers = together([functools.partial(server.chat, **one) for one in requests * (200 // len(requests))], 8)
        count += len(answers)
        assert statuses(answers) == [(503 if reason == "paused" else 429, reason)] or reason == "site_limit"
        assert {answer.code for answer in answers} <= {reason, "address_limit"}
    assert time.monotonic() - born < 50, "this machine is too slow for the test"
    assert place.data() == before
    assert place.data_file.stat().st_size == size
    assert model.count == admitted == len(spends)
    day = place.day()
    told = day["paused"] if reason == "paused" else sum(day["refused"].values())
    assert told == count, "they are counted nevertheless"
    if not calls:
        server.stop()
        assert place.data() == before, "a stop has nothing to write"
    for call in calls:
        call.close()
    place.run("resume")
    place.run("maintain")
    assert place.data() != before, "the comparison can fail"


def test_f12_a_place_is_free_once_its_stream_has_ended(site, model):
    """Also when the caller has left, and at once when the holder was killed."""
    place = site(limits={"visitor-at-once": limit("address", "concurrent", None, 1)})
    server = place.start()
    model.set(chunks=500, gap_ms=20)

    def stream():
        call = server.begin(stream=True)
        call.wait_for(b'"content":"')
        return call

    def admitted():
        answer = server.begin(stream=True)
        if answer.head() == 200:
            return answer
        answer.close()
        return None

    call = stream()
    refused = server.chat()
    assert (refused.status, refused.code) == (429, "concurrent_limit")
    assert refused.header("Retry-After") == "2"
    call.close()
    call = until(admitted, 2, "the place of a caller who left")
    call.wait_for(b'"content":"')
    pids = server.gateways()
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    call.close()
    until(lambda: not any(alive(pid) for pid in pids), 5, "the end of the killed")
    other = place.start()  # another web server, since lighttpd needs a second to start a new one
    begun = other.begin(stream=True)
    assert begun.head() == 200, "the place of a killed process must be free at once"
    begun.close()
    assert place.used("site-day") == 3, "the money of killed and left streams stays charged"


@pytest.mark.parametrize("stream", [False, True])
def test_f12_the_end_of_an_answer_is_the_end_of_its_place(gate, model, mode, stream):
    """Who has read an answer to its end may ask at once, as often as they like."""
    server = gate(mode, limits={"visitor-at-once": limit("address", "concurrent", None, 1)})
    assert [server.chat(stream=stream).status for _ in range(100)] == [200] * 100
    assert model.stats()["max_open"] == 1


def test_a_request_that_can_never_fit_is_too_long(gate, model):
    server = gate(demo=BARE, limits={"budget": limit("everyone", "tokens", "day", 110)})
    assert server.chat("0123456789").status == 200
    answer = server.chat("0123456789x")
    assert (answer.status, answer.code) == (400, "too_long")
    assert model.count == 1


def test_busy_is_free(site, model):
    """More callers than streams: those without a place hear it and are not charged."""
    model.set(hang=True)
    place = site(server={"streams": 2})
    server = place.start()
    held = [server.begin(stream=True) for _ in range(2)]
    until(lambda: model.stats()["open"] == 2, 5, "two calls upstream")
    answer = server.chat()
    assert (answer.status, answer.code) == (503, "busy")
    assert int(answer.header("Retry-After")) >= 1
    assert place.used("site-day") == 2
    for call in held:
        call.close()


@pytest.mark.parametrize("price, ok", [("$0.001", True), ("$0.000999999", False), ("$0.00000015", False),
                                       ("0", True), ("$1000", True), ("$1000.01", False), ("-1", False)])
def test_f8_a_price_per_token_is_not_taken_for_one_per_million(site, model, price, ok):
    """0.15 dollars per million is 0.00000015 per token: a slip of a million times is refused, in
    either direction, by check and at run time."""
    place = site(limits={"spend": limit("everyone", "cost", "day", "$100000")})
    place.demo["price-input"] = price
    place.write()
    done = place.run("check", check=False)
    assert (done.returncode == 0) == ok, done.stdout
    answer = place.start().chat()
    assert answer.status == (200 if ok else 503) and model.count == ok
    if not ok:
        assert answer.code == "configuration" and "price-input" in done.stdout + done.stderr


def test_f15_parallel_settlements_come_to_the_exact_sum(site, model):
    """Streamed and plain, with usage and without, given back and more than was reserved."""
    model.set(prompt_tokens=7, completion_tokens=13)
    place = site(demo={**BARE, "price-input": "$3.00", "price-output": "$15.00"}, server={"streams": 32}, limits={
        name: limit("everyone", unit, window, "$1000" if unit == "cost" else 10000000)
        for name, unit, window in (("tokens", "tokens", "day"), ("cost", "cost", "day"), ("sliding", "cost", "7d"),
                                   ("month", "tokens", "month"))})
    servers = [place.start(procs=2), place.start("cgi")]
    want = {"tokens": 0, "cost": 0}
    for settings, calls, tokens, cost in (
            ({}, 120, 7 + 13, 7 * 3000 + 13 * 15000),
            ({"usage": "none"}, 40, 10 + 100, 10 * 3000 + 100 * 15000),
            ({"prompt_tokens": 50, "completion_tokens": 300}, 40, 350, 50 * 3000 + 300 * 15000),
            ({"status": 429}, 40, 0, 0)):
        model.set(reset=True, gap_ms=0, prompt_tokens=7, completion_tokens=13)
        model.set(**settings)
        for server, stream in ((servers[0], False), (servers[0], True), (servers[1], False), (servers[1], True)):
            answers = together([functools.partial(server.chat, messages="0123456789", stream=stream)] * (calls // 4), 8)
            assert {answer.status for answer in answers} == {200 if settings.get("status", 200) == 200 else 503}
        want = {"tokens": want["tokens"] + calls * tokens, "cost": want["cost"] + calls * cost}
    day = place.settled()
    assert place.used("tokens") == place.used("month") == want["tokens"]
    assert place.used("cost") == place.used("sliding") == want["cost"]
    # of the last 40 those that came before the breaker opened
    assert (day["settled"], day["unknown"]) == (160, 40) and 1 <= day["given_back"] <= 40
    assert day["admitted"] == 200 + day["given_back"] and day["breaker"] == 40 - day["given_back"]
    assert place.used("site-day") == 200, "what is given back is no call"
    assert day["cost_nano"] == want["cost"] and day["tokens_in"] + day["tokens_out"] == want["tokens"]


@pytest.mark.parametrize("status, most", [(401, 3), (402, 3), (429, 3), (404, 7)])
def test_f46_an_api_that_refuses_us_is_not_hammered(site, model, status, most):
    """Nothing can have been billed, so everything comes back, the call too; it is the breaker, and
    not a limit, that keeps callers from asking without end. It opens with a settle, so that one
    or two more get through."""
    model.set(status=status)
    place = site(limits={"visitor-day": limit("address", "calls", "day", 20),
                         "tokens": limit("everyone", "tokens", "day", 100000)})
    server = place.start()
    answers = [server.chat() for _ in range(15)]
    assert {answer.status for answer in answers} <= {502, 503}
    assert answers[-1].code == "upstream_paused"
    assert 1 <= model.count <= most
    place.settled()
    assert place.used("tokens") == place.used("site-day") == 0
