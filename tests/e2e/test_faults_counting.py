"""Counting and money: one test for each kind of fault, F1 to F12 of those that reach the main
job. Figures are compared with what the practice model really received."""
import os
import signal
import threading

from harness import limit, until

# No overhead, so that a worst case is the message's bytes and the cap on the answer.
BARE = {"overhead-per-call": 0, "overhead-per-message": 0}


def together(server, callers, requests, **options):
    """So many requests from so many callers at once; their answers."""
    left, answers, lock = list(range(requests)), [], threading.Lock()

    def call():
        while True:
            with lock:
                if not left:
                    return
                left.pop()
            answer = server.chat(**options)
            with lock:
                answers.append(answer)

    threads = [threading.Thread(target=call) for _ in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == requests
    return answers


def statuses(answers):
    return sorted({(a.status, a.code if a.status != 200 else None) for a in answers}, key=str)


def test_f1_check_then_act(gate, model):
    """A budget for one call, 20 parallel requests: exactly one is admitted."""
    model.set(first_ms=100)
    server = gate(limits={"site-day": limit("everyone", "calls", "day", 1)}, server={"streams": 32},
                  procs=2)
    answers = together(server, 20, 20)
    assert [a.status for a in answers].count(200) == 1
    assert statuses(answers) == [(200, None), (429, "site_limit")]
    assert model.count == 1


def test_f2_no_short_cut_for_those_who_have_plenty(site, model):
    """1000 tokens, 200 requests of 50 from 24 callers at once: exactly 20 are admitted."""
    model.set(prompt_tokens=10, completion_tokens=40)
    place = site(demo={**BARE, "max-output-tokens": 40}, server={"streams": 32},
                 limits={"budget": limit("everyone", "tokens", "day", 1000)})
    server = place.start(procs=2)
    answers = together(server, 24, 200, messages="0123456789")
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


def test_ten_thousand_refusals_leave_the_data_file_as_it_is(site, model):
    place = site(limits={"site-day": limit("everyone", "calls", "day", 1)})
    server = place.start(procs=2)
    assert server.chat().status == 200
    place.settled()
    before, size = place.data(), place.data_file.stat().st_size
    answers = together(server, 8, 10000)
    assert statuses(answers) == [(429, "site_limit")]
    assert place.data_file.stat().st_size == size
    assert place.data() == before
    assert model.count == 1


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
    for pid in server.gateways():
        os.kill(pid, signal.SIGKILL)
    call.close()
    other = place.start()  # another web server, since lighttpd needs a second to start a new one
    begun = other.begin(stream=True)
    assert begun.head() == 200, "the place of a killed process must be free at once"
    begun.close()
    assert place.used("site-day") == 3, "the money of killed and left streams stays charged"


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
