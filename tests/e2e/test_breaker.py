"""A model that fails or refuses us is given a rest (F46): callers hear so at once, pay nothing,
and the API is left alone until one of them may try again."""
import contextlib
import socket
import struct

import direct
import pytest

from harness import limit, until

ONE_A_SECOND = {"breaker-after": 3, "breaker-pause": "1s"}
PATIENT = {"breaker-after": 3, "breaker-pause": "1h"}


def rests(server):
    """Waits until the breaker is open: it opens with the settle, within a second or so."""
    until(lambda: server.get("/status").json["code"] == "upstream_paused", 10, "the breaker to open")


def recovers(server):
    until(lambda: server.get("/status").json["available"], 10, "the end of the rest")


@pytest.mark.parametrize("settings, wait", [
    ({"status": 401}, 30), ({"status": 402}, 30), ({"status": 429}, 30),
    ({"status": 429, "retry_after": 120}, 120), ({"status": 429, "retry_after": 86400}, 3600)])
def test_f46_an_api_that_refuses_us_is_not_asked_again(gate, model, mode, settings, wait):
    server = gate(mode, limits={"visitor-day": limit("address", "calls", "day", 5)},
                  demo={"breaker-pause": "30s"})
    model.set(**settings)
    answer = server.chat()
    assert (answer.status, answer.code) == (503, "upstream_refused")
    first = int(answer.header("Retry-After"))
    assert first == wait, "the first one hears what the others hear"
    rests(server)
    for _ in range(3):
        answer = server.chat()
        assert (answer.status, answer.code) == (503, "upstream_paused")
        assert int(answer.header("Retry-After")) <= first
        assert wait - 20 <= int(answer.header("Retry-After")) <= wait
        assert (answer.header("x-should-retry") == "false") == (wait > 80)
    assert model.stats()["started"] == 1
    until(lambda: server.site.day()["breaker"] == 3, 5, "the figures, which CGI counts after its answer")
    day = server.site.settled()
    assert (day["admitted"], day["given_back"], day["breaker"]) == (1, 1, 3)
    assert server.get("/status").json["limits"][0]["remaining"] == 5, "nobody paid"


def test_f46_so_many_failures_in_a_row_open_it(gate, model):
    server = gate(demo=PATIENT)
    for settings in ({"status": 500}, {"garbage": True}):
        model.set(reset=True, gap_ms=0, **settings)
        assert server.chat().status == 502
        server.site.settled()
    model.reset()
    assert server.chat().status == 200  # in a row: it begins anew
    server.site.settled()
    model.set(status=503)
    for _ in range(3):
        assert server.chat().status == 502
        server.site.settled()
    rests(server)
    assert server.chat().code == "upstream_paused"
    assert model.stats()["started"] == 4, "since the last reset"


@pytest.mark.parametrize("status, told", [(400, 502), (403, 503), (413, 502), (422, 502), (418, 502)])
def test_one_callers_odd_input_does_not_close_the_site(gate, model, status, told):
    server = gate(demo={**PATIENT, "breaker-after": 1})
    model.set(status=status)
    for _ in range(3):
        assert server.chat().status == told
        server.site.settled()
    model.reset()
    assert server.chat().status == 200


def test_callers_who_leave_do_not_close_the_site(gate, model):
    server = gate(demo={**PATIENT, "breaker-after": 1})
    model.set(hang=True)
    for stream in (False, True):
        call = server.begin(stream=stream, parts=True)
        until(lambda: model.stats()["open"] == 1, 10, "the call")
        call.close()
        until(lambda: model.stats()["open"] == 0, 10, "the call's end")
    server.site.settled()
    model.reset()
    assert server.chat().status == 200


@contextlib.contextmanager
def slow_reader(server):
    """Asks for a stream and reads none of it until the block has ended, then all."""
    sent, body = direct.parameters(body={**direct.HELLO, "stream": True})
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(30)
        peer.connect(str(server.site.socket))
        peer.sendall(direct.record(direct.BEGIN, struct.pack("!HB5x", direct.RESPONDER, 0)) +
                     direct.stream(direct.PARAMS, direct.pairs(sent.items())) +
                     direct.stream(direct.STDIN, body))
        yield
        with peer.makefile("rb") as file:
            assert b"upstream_timeout" in file.read(), "it was cut, and not by its own end"


def test_a_caller_who_reads_slowly_does_not_close_the_site(gate, model):
    server = gate("external", demo={**PATIENT, "breaker-after": 1, "total-timeout": "2s",
                                    "max-output-tokens": 4000})
    model.set(size=16000000, chunks=4000, gap_ms=0)  # more than sockets hold
    with slow_reader(server):
        until(lambda: model.stats()["started"] == 1, 10, "the call")
        until(lambda: model.stats()["open"] == 0, 10, "its total time")
    server.site.settled()
    model.reset()
    assert server.chat().status == 200


@pytest.mark.parametrize("settings, stream", [
    ({"status": 404}, False), ({"redirect": "http://127.0.0.1:9/"}, False),
    ({"error_in_200": "before"}, True), ({"error_in_200": "body"}, False), ({"cut": "middle"}, True)])
def test_what_counts_as_a_failure(gate, model, settings, stream):
    server = gate(demo={**PATIENT, "breaker-after": 1})
    model.set(**settings)
    server.chat(stream=stream)
    rests(server)


def test_it_closes_once_the_api_is_well_again(gate, model):
    server = gate(demo=ONE_A_SECOND)
    model.set(status=429, retry_after=1)
    assert server.chat().code == "upstream_refused"
    rests(server)
    model.reset()
    recovers(server)
    assert server.chat().status == 200
    server.site.settled()
    assert [server.chat().status for _ in range(3)] == [200] * 3


def test_another_model_goes_on(gate, model):
    server = gate(demo=PATIENT, models={"other": {"model": "practice-small"}})
    model.set(status=402)
    assert server.chat().code == "upstream_refused"
    rests(server)
    model.reset()
    assert server.chat(fields={"model": "other"}).status == 200
    assert server.chat().code == "upstream_paused"


def test_the_owner_can_end_the_rest(gate, model):
    server = gate(demo=PATIENT)
    model.set(status=401)
    assert server.chat().code == "upstream_refused"
    rests(server)
    model.reset()
    server.site.run("forgive", "model", "demo")
    assert server.chat().status == 200


def test_a_stream_that_ends_in_an_error_counts_and_one_that_was_left_does_not(gate, model):
    server = gate(demo={**PATIENT, "breaker-after": 1})
    model.set(gap_ms=50, chunks=100)
    call = server.begin(stream=True, parts=True)
    call.wait_for(b'"content":"')
    call.close()
    until(lambda: model.stats()["open"] == 0, 10, "the call's end")
    server.site.settled()
    model.reset()
    assert server.chat().status == 200
    model.set(error_in_200="middle")
    assert server.chat(stream=True).status == 200
    rests(server)
