"""Durability lease where power is lost again and again: web servers, a pool of FastCGI processes, CGI
processes and `maintain` are killed at a random moment, all at once, and tmpfs is empty afterwards.
tests/unit/test_lease_storm.c does the same thousands of times below HTTP."""
import contextlib
import os
import random
import signal
import subprocess
import threading

import pytest

from harness import alive, limit, until
from test_lease import FIGURES, Leased

ROUNDS = 100
CALLERS = 4
SITE_MAX = 3200
AHEAD = SITE_MAX // 32
# In a sliding window the test can run at midnight, too.
LIMITS = {"visitor-day": limit("address", "calls", "day", 1000000), "site": limit("everyone", "calls", "30d", SITE_MAX)}


class Callers:
    """They ask the servers in turn until they are told to stop."""

    def __init__(self, servers):
        self.servers, self.answered, self.over = servers, [], threading.Event()
        self.threads = [threading.Thread(target=self.ask, args=(n,)) for n in range(CALLERS)]
        for thread in self.threads:
            thread.start()

    def ask(self, n):
        while not self.over.is_set():
            n += 1
            with contextlib.suppress(OSError, AssertionError, ValueError):
                self.answered.append(self.servers[n % len(self.servers)].chat(timeout=10).status)

    def admitted(self):
        return self.answered.count(200)

    def join(self):
        for thread in self.threads:
            thread.join(60)
            assert not thread.is_alive()


def programs(place):
    """Whatever runs of the site's program: also what works on after its answer, and children."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{pid}/exe").startswith(f"{place.directory}/"):
                found.append(int(pid))
    return [pid for pid in found if alive(pid)]


def kill(place, servers, others):
    """All at once: a web server that stands still starts nobody meanwhile."""
    for server in servers:
        os.kill(server.process.pid, signal.SIGSTOP)
    for pid in [*programs(place), *(server.process.pid for server in servers)]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for process in [*(server.process for server in servers), *others]:
        process.wait(10)
    until(lambda: not programs(place), 10, "the end of the killed")
    for server in servers:
        server.process = None


def command(place, *words):
    return subprocess.Popen([place.program, *words, "-c", place.config], env=place.environment(),
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def begin_and_kill(place, words, seconds):
    one = command(place, *words)
    with contextlib.suppress(subprocess.TimeoutExpired):
        one.wait(seconds)
    one.kill()
    one.wait(10)


def one_round(place, chance):
    """Somebody is admitted, and the power goes; the answers that were seen."""
    servers = [place.start("spawned", procs=2), place.start("cgi")]
    callers = Callers(servers)
    enough = chance.randrange(1, 16)
    try:
        until(lambda: callers.admitted() >= enough or 429 in callers.answered, 30, "some calls")
        others = [command(place, "maintain", *chance.choice([[], ["--stop"]])) for _ in range(chance.randrange(3))]
        threading.Event().wait(chance.random() * 0.03)  # the moment, not a wait
    finally:
        callers.over.set()
    kill(place, servers, others)
    callers.join()
    if chance.random() < 0.9:
        place.forget()
    for _ in range(chance.randrange(3)):  # restores that are cut off
        begin_and_kill(place, chance.choice([["stats"], ["maintain"]]), chance.random() * 0.02)
    return callers


@pytest.fixture
def place(model):
    model.set(**FIGURES)
    made = Leased(model, limits=LIMITS)
    yield made.init()
    made.close()


@pytest.mark.slow
def test_never_over_and_what_is_wasted_is_within_the_lease(place):
    chance = random.Random(20261130)
    model, since, starts, exhausted = place.model, place.model.count, 0, 0
    for number in range(ROUNDS):
        callers = one_round(place, chance)
        starts += 1
        called, used = model.count - since, place.used("site")
        assert set(callers.answered) <= {200, 429, 500, 502, 503, 504}, callers.answered
        assert called <= SITE_MAX, f"round {number}: {called} calls were made"
        assert called <= used, f"round {number}: of {called} calls it knows {used}"
        # a segment when it began, and one that a copy was taken in
        assert used <= called + starts * (2 * AHEAD + CALLERS), f"round {number}: {used} for {called} calls"
        if used >= SITE_MAX:
            place.run("forgive", "everyone")
            since, starts, exhausted = model.count, 0, exhausted + 1
    assert exhausted > 0, "no limit was reached"
