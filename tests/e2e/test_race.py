"""32 threads and 4 processes against a budget of 100: exactly 100 calls reach the model, as it
counts them itself; with processes killed at random moments never more than 100."""
import contextlib
import contextlib
import os
import random
import signal
import threading

import pytest

from harness import limit, until

BUDGET = 100


def storm(server, model, threads=32, enough=None):
    """Callers that ask until they are refused for good or `enough` says so."""
    statuses, lock = [], threading.Lock()

    def call(number):
        while not (enough and enough.is_set()):
            try:
                status = server.chat(source=f"127.0.4.{1 + number}").status
            except (OSError, AssertionError):
                status = None  # the connection died with its process
            with lock:
                statuses.append(status)
                if status == 429 and statuses.count(429) > 100:
                    return

    callers = [threading.Thread(target=call, args=(n,)) for n in range(threads)]
    for caller in callers:
        caller.start()
    return callers, statuses


@pytest.mark.parametrize("unit, maximum", [("calls", BUDGET), ("tokens", BUDGET * 50)])
def test_exactly_the_budget_is_admitted(site, model, unit, maximum):
    model.set(prompt_tokens=10, completion_tokens=40)
    place = site(demo={"overhead-per-call": 0, "overhead-per-message": 0,
                       "max-output-tokens": 30}, server={"streams": 32},
                 limits={"budget": limit("everyone", unit, "day", maximum)})
    server = place.start(procs=4)
    callers, statuses = storm(server, model)
    for caller in callers:
        caller.join()
    assert set(statuses) <= {200, 429}
    assert statuses.count(200) == model.count == BUDGET
    assert place.used("budget") == maximum


def test_never_more_than_the_budget_with_processes_killed(site, model):
    rng = random.Random(20260101)
    place = site(server={"streams": 32}, limits={"budget": limit("everyone", "calls", "day", BUDGET)})
    servers = [place.start(procs=2), place.start(procs=2)]
    model.set(first_ms=30)
    enough = threading.Event()
    storms = [storm(server, model, 16, enough) for server in servers]
    killed = 0

    def over():
        return any(429 in statuses for _, statuses in storms)

    try:
        while not over():
            target = model.count + rng.randrange(1, 8)
            until(lambda: over() or model.count >= target, 30, "more calls")
            pids = [pid for server in servers for pid in server.gateways()]
            for pid in rng.sample(pids, min(len(pids), 1 + len(pids) // 3)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    killed += 1
    finally:
        enough.set()
        for callers, _ in storms:
            for caller in callers:
                caller.join()
    assert killed >= 3
    assert model.count <= BUDGET
    assert sum(statuses.count(200) for _, statuses in storms) <= model.count
    assert place.used("budget") == BUDGET, "what was killed under way stays charged"
    assert place.stats_of("open_streams") == 0


def test_exactly_the_budget_is_admitted_by_processes_of_one_request(site, model):
    """The same as CGI, where each request is a process of its own."""
    place = site(server={"streams": 64}, limits={"budget": limit("everyone", "calls", "day", BUDGET)})
    servers = [place.start("cgi"), place.start("cgi")]
    storms = [storm(server, model, 16) for server in servers]
    for callers, _ in storms:
        for caller in callers:
            caller.join()
    statuses = [status for _, some in storms for status in some]
    assert set(statuses) <= {200, 429, 503}, "busy, where the queue for the store was long"
    assert statuses.count(200) == model.count == BUDGET == place.used("budget")


def test_never_more_than_the_budget_with_cgi_processes_killed(site, model):
    """As uhttpd does at every closed tab. What they had reserved stays charged."""
    rng = random.Random(20260202)
    place = site(server={"streams": 64}, limits={"budget": limit("everyone", "calls", "day", BUDGET)})
    server = place.start("cgi")
    model.set(first_ms=20)
    enough, killed = threading.Event(), 0
    callers, statuses = storm(server, model, 24, enough)
    try:
        while 429 not in statuses:
            pids = server.gateways()
            for pid in rng.sample(pids, len(pids) // 3):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    killed += 1
            seen = len(statuses)
            until(lambda seen=seen: len(statuses) > seen + 4 or 429 in statuses, 30, "more answers")
    finally:
        enough.set()
        for caller in callers:
            caller.join()
    assert killed >= 10
    assert statuses.count(200) <= model.count <= BUDGET == place.used("budget")
    assert place.stats_of("open_streams") == 0


@pytest.mark.parametrize("per, unit, window, maximum", [
    ("address", "calls", "10m", 40), ("address", "tokens", "month", 40 * 50), ("everyone", "cost", "1h", "$0.0036"),
    ("anonymous", "calls", "7d", 40)])
def test_exactly_what_fits_is_admitted_whatever_is_limited(site, model, per, unit, window, maximum):
    """Of one caller who asks 24 times at once, of four processes, against each kind of limit."""
    model.set(usage="none")
    place = site(demo={"overhead-per-call": 0, "overhead-per-message": 0, "max-output-tokens": 40},
                 server={"streams": 32}, limits={"mine": limit(per, unit, window, maximum)})
    server, statuses, lock = place.start(procs=4), [], threading.Lock()

    def call():
        for _ in range(6):
            status = server.chat("0123456789").status
            with lock:
                statuses.append(status)

    callers = [threading.Thread(target=call) for _ in range(24)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(statuses) == 144 and set(statuses) == {200, 429}
    assert statuses.count(200) == model.count == 40
