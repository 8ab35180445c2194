"""F36: the caller is gone, and the model must not go on: in each mode the call upstream ends
within a second of the caller's closing, before the first token, in the middle, and for plain
JSON; what was reserved stays charged.

The callers send in two parts: lighttpd 1.4.69 begins to watch a connection for its end only once
it has had to wait for it, so that of a request that is there at once it sees the end no sooner
than with the next bytes that it sends."""
import socket

import pytest

from harness import until


@pytest.mark.parametrize("when", ["before the first token", "in the middle", "plain", "before the header"])
def test_f36_the_call_ends_with_the_caller(site, model, mode, when):
    place = site()
    server = place.start(mode)
    if when == "in the middle":
        model.set(chunks=600, gap_ms=100)
    elif when == "before the first token":
        model.set(header_first=True, first_ms=60000)
    else:
        model.set(hang=True)
    call = server.begin(stream=when != "plain", parts=True)
    if when == "in the middle":
        call.wait_for(b'"content":"')
    else:
        until(lambda: model.stats()["open"] == 1, 5, "the call upstream")
    call.close()
    until(lambda: model.stats()["aborted"] == 1, 1, "the abort")
    until(lambda: place.stats_of("open_streams") == 0, 3, "a free place")
    assert place.used("site-day") == 1


def test_a_caller_that_closes_its_sending_half_is_as_good_as_gone(site, model):
    """lighttpd hands this on like a full close; the answer is cut and the call is ended."""
    server = site().start()
    model.set(chunks=600, gap_ms=100)
    call = server.begin(stream=True, parts=True)
    call.wait_for(b'"content":"')
    call.socket.shutdown(socket.SHUT_WR)
    until(lambda: model.stats()["open"] == 0, 2, "the end of the call upstream")
    call.close()


def test_a_caller_that_does_not_read_is_cut_off(site, model, mode):
    """A full pipe must not hold a stream's place for ever: write-timeout ends it."""
    place = site(server={"write-timeout": "2s"}, demo={"total-timeout": "60s"})
    server = place.start(mode)
    model.set(size=8000000, chunks=400, gap_ms=0)
    call = server.begin(stream=True)
    until(lambda: model.stats()["open"] == 1, 5, "the call upstream")
    until(lambda: model.stats()["open"] == 0, 15, "the end of a stream that nobody reads")
    until(lambda: place.stats_of("open_streams") == 0, 15, "a free place")
    call.close()
