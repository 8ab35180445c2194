"""Counting and money for those who share one counter whoever they are: all who have not signed in
(`anonymous`) and the owner's own calls (`bypass`). One test for each kind of fault, as
tests/e2e/test_faults_callers.py has them for callers who are known."""
import itertools
import os
import signal

import pytest

from harness import limit, together, until
from test_midnight import MIDNIGHT, SECOND, clock  # noqa: F401: a fixture

BARE = {"overhead-per-call": 0, "overhead-per-message": 0, "max-output-tokens": 40}
ASK, WORST, REAL = "0123456789", 50, 17  # 10 bytes and 40 tokens; what the model reports
USAGE = {"prompt_tokens": 9, "completion_tokens": 8}
SECRET = "the-owners-own-0123456789"
HEADERS = {"anonymous": [], "bypass": [("X-Pennygate-Bypass", SECRET)]}
sources = itertools.cycle(f"127.0.{high}.{low}" for high in range(60, 100) for low in range(1, 250))


@pytest.fixture(params=HEADERS)
def per(request):
    return request.param


def bound(place, per, unit, window, maximum):
    """The counter that they share."""
    if per == "bypass":
        secret = place.directory / "bypass"
        secret.write_text(SECRET + "\n", encoding="ascii")
        secret.chmod(0o600)
        place.own(secret)
        place.sections["bypass"] = {"secret-file": secret, "unit": unit, "window": window, "max": maximum}
    else:
        place.limits["mine"] = limit(per, unit, window, maximum)
    place.write()


class Shared:
    """A running site where each asks from an address of its own."""

    def __init__(self, place, per, server):
        self.place, self.per, self.server, self.model = place, per, server, place.model

    def chat(self, **options):
        return self.server.chat(ASK, headers=HEADERS[self.per], source=next(sources), **options)

    def begin(self):
        return self.server.begin(ASK, stream=True, headers=HEADERS[self.per], source=next(sources), parts=True)

    def status(self):
        return self.server.open("GET", "/status", b"", HEADERS[self.per], source=next(sources)).answer().json

    def statuses(self, n):
        return [self.chat().status for _ in range(n)]

    def together(self, n):
        return together([lambda: self.chat()] * n)

    @property
    def used(self):
        return self.place.used("bypass" if self.per == "bypass" else "mine")


@pytest.fixture
def shared(site, per, model):
    def make(unit="calls", window="day", maximum=2, procs=1, **options):
        place = site(demo={**BARE, **options.pop("demo", {})}, server={"streams": 32}, **options)
        bound(place, per, unit, window, maximum)
        return Shared(place, per, place.start(procs=procs))

    return make


def test_f1_check_then_act(shared, model, per):
    model.set(first_ms=50)
    callers = shared(maximum=1, procs=2)
    answers = callers.together(20)
    assert [one.status for one in answers].count(200) == model.count == 1
    assert {one.code for one in answers if one.status != 200} == {f"{per}_limit"}


def test_f2_no_short_cut_for_those_who_have_plenty(shared, model):
    """1000 tokens, 60 requests of 50 at once: exactly 20."""
    model.set(usage="none")
    callers = shared("tokens", maximum=1000, procs=2)
    answers = callers.together(60)
    assert [one.status for one in answers].count(200) == model.count == 20
    assert callers.used == 1000


def test_f3_f4_leaving_does_not_dodge_the_cost(shared, model):
    model.set(chunks=40, gap_ms=20, **USAGE)
    callers = shared("tokens", maximum=2 * WORST)
    call = callers.begin()
    call.wait_for(b'"content":"')
    call.close()
    until(lambda: model.stats()["open"] == 0, 5, "the abort")
    callers.place.settled()
    assert callers.used == WORST
    model.set(chunks=2, gap_ms=0)
    assert callers.statuses(1) == [200]
    callers.place.settled()
    assert callers.used == WORST + REAL
    assert callers.statuses(1) == [429]


def test_f5_what_status_says_is_what_the_next_call_hears(shared, per):
    """They share a counter, so that yes or no is all that anybody is told."""
    callers = shared(maximum=3)
    for used in range(3):
        said = callers.status()
        assert (said["available"], callers.used) == (True, used)
        assert all(one["name"] not in ("mine", "bypass") for one in said["limits"])
        answer = callers.chat()
        assert answer.status == 200 and '"mine"' not in str(answer.headers) and '"bypass"' not in str(answer.headers)
    said, answer = callers.status(), callers.chat()
    assert (said["available"], said["code"]) == (False, f"{per}_limit")
    assert (answer.code, callers.used) == (f"{per}_limit", 3)
    for wait in (said["retry_after"], int(answer.header("Retry-After"))):
        assert wait > 0 and wait % 60 == 0


def test_f6_money_without_a_price_admits_nothing(shared, model):
    callers = shared("cost", maximum="$1.00", demo={"price-input": None, "price-output": None})
    assert callers.place.run("check", check=False).returncode != 0
    assert callers.chat().status == 503 and model.count == 0


def test_f7_a_maximum_of_nothing_admits_nothing(shared, model, per):
    callers = shared(maximum=0)
    assert callers.status()["code"] == f"{per}_limit"
    assert [callers.chat().code for _ in range(2)] == [f"{per}_limit"] * 2
    assert model.count == 0


def test_f11_refusals_use_nothing_up(shared, model):
    """And write nothing: the file stays as it is, byte for byte."""
    callers = shared(maximum=2)
    assert callers.statuses(2) == [200, 200]
    callers.place.settled()
    before = callers.place.data()
    assert callers.statuses(100) == [429] * 100
    assert callers.place.data() == before
    assert callers.used == model.count == 2


@pytest.mark.parametrize("settings", [{"status": 429}, {"status": 402}, {"status": 401}])
def test_f46_what_the_api_refused_us_is_given_back(shared, model, settings):
    callers = shared(maximum=1)
    model.set(**settings)
    assert callers.chat().code == "upstream_refused"
    callers.place.settled()
    assert callers.used == 0
    assert callers.chat().code == "upstream_paused", "and not that the calls were used up"


def test_f15_parallel_settlements_come_to_the_exact_sum(shared, model):
    model.set(first_ms=30, **USAGE)
    callers = shared("tokens", maximum=20 * WORST, procs=2)
    assert [one.status for one in callers.together(20)] == [200] * 20
    callers.place.settled()
    assert callers.used == 20 * REAL


@pytest.mark.parametrize("unit, maximum", [("calls", 2), ("cost", "$0.00018")])
def test_f49_a_window_is_not_cut_at_midnight(clock, model, per, unit, maximum):  # noqa: F811
    model.set(usage="none")
    now = clock(MIDNIGHT - SECOND, fill=lambda place: bound(place, per, unit, "1h", maximum), demo=BARE)
    callers = Shared(now.place, per, now.server)
    assert callers.statuses(3) == [200, 200, 429]
    for seconds in (0, 1800, 3420):
        now.to(MIDNIGHT + seconds * SECOND)
        assert callers.statuses(1) == [429], seconds
    now.to(MIDNIGHT + 4051 * SECOND)
    assert callers.statuses(3) == [200, 200, 429]


def test_f53_a_changed_maximum_counts_what_was_used_before_it(shared, per):
    callers = shared(maximum=5, procs=2)
    assert callers.statuses(3) == [200] * 3
    bound(callers.place, per, "calls", "day", 3)
    assert {one.code for one in callers.together(8)} == {f"{per}_limit"}
    bound(callers.place, per, "calls", "day", 4)
    assert sorted(one.status for one in callers.together(8)) == [200] + [429] * 7


def test_the_owner_can_give_it_back(shared, per):
    callers = shared(maximum=1)
    assert callers.statuses(2) == [200, 429]
    callers.place.settled()
    assert callers.place.run("forgive", per) == f"forgiven: {per}\n"
    assert callers.statuses(2) == [200, 429]


@pytest.mark.parametrize("per", ["anonymous", "everyone"])
def test_f12_a_place_of_all_is_free_once_its_holder_is_dead(site, model, per):
    """Also when it was killed, and to a caller in another process."""
    model.set(chunks=500, gap_ms=20)
    place = site(limits={"mine": limit(per, "concurrent", None, 1)})
    server, other = place.start(), place.start()
    call = server.begin(stream=True, source="127.0.0.2")
    call.wait_for(b'"content":"')

    def asked():
        answer = other.begin(stream=True, source="127.0.0.3")
        answer.head()
        answer.close()
        return answer.status

    refused = other.chat(source="127.0.0.3")
    assert (refused.status, refused.code) == (429, "concurrent_limit")
    for pid in server.gateways():
        os.kill(pid, signal.SIGKILL)
    until(lambda: asked() == 200, 2, "the place of a killed process")
    call.close()
    assert place.used("site-day") == 2, "the money of the killed one stays charged"
