"""Counting and money for callers that are known by a cookie, an account or a key: one test for each
kind of fault, as tests/e2e/test_faults_counting.py has them for addresses and the site. A caller
asks from ever new addresses, so that nothing but what it is known by can refuse it."""
import datetime
import itertools
import os
import re
import signal

import pytest

from examples import account, cookie
from harness import limit, together, until
from test_midnight import MIDNIGHT, SECOND, UTC, clock  # noqa: F401: a fixture

BARE = {"overhead-per-call": 0, "overhead-per-message": 0, "max-output-tokens": 40}
ASK, WORST, REAL = "0123456789", 50, 17  # 10 bytes and 40 tokens; what the model reports
USAGE = {"prompt_tokens": 9, "completion_tokens": 8}
WIDE = {"visitor-at-once": limit("address", "concurrent", None, 1000)}
sources = itertools.cycle(f"127.0.{high}.{low}" for high in range(20, 60) for low in range(1, 250))


@pytest.fixture(params=["visitor", "account", "key"])
def per(request):
    return request.param


class Known:
    """A running site, and so many callers of a kind: `headers[n]` is what the nth shows."""

    def __init__(self, place, per, n=2, procs=1, server=None):
        self.place, self.model = place, place.model
        self.headers = []
        if per == "account":
            self.headers = [account(place, f"user{i}") for i in range(n)]
        elif per == "key":
            for i in range(n):
                token = re.search(r"pg_[\w-]+", place.run("keys", "add", f"user{i}"))[0]
                self.headers.append(("Authorization", "Bearer " + token))
        self.server = server or place.start(procs=procs)
        if per == "visitor":
            self.headers = [cookie(self.server.chat(ASK, source=next(sources))) for _ in range(n)]
            place.settled()
        self.before = self.model.count

    def chat(self, who=0, text=ASK, **options):
        return self.server.chat(text, headers=[self.headers[who]], source=next(sources), **options)

    def begin(self, who=0):
        """A stream of which lighttpd sees the end: test_leaving.py says why it is sent in parts."""
        return self.server.begin(ASK, stream=True, headers=[self.headers[who]], source=next(sources), parts=True)

    def statuses(self, n, who=0):
        return [self.chat(who).status for _ in range(n)]

    def together(self, n, who=0):
        return together([lambda: self.chat(who)] * n)

    @property
    def count(self):
        """Calls that reached the model on behalf of these."""
        return self.model.count - self.before


@pytest.fixture
def known(site, per, model):
    def make(unit="calls", window="day", maximum=2, n=2, procs=1, **limits):
        mine = limit(per, unit, window, maximum)
        return Known(site(demo=BARE, server={"streams": 32}, limits={**WIDE, "mine": mine, **limits}), per, n, procs)

    return make


def test_f1_check_then_act(known, model, per):
    model.set(first_ms=50)
    callers = known(maximum=1, procs=2)
    answers = callers.together(20)
    assert [one.status for one in answers].count(200) == callers.count == 1
    assert {one.code for one in answers if one.status != 200} == {f"{per}_limit"}


def test_f2_no_short_cut_for_those_who_have_plenty(known, model, per):
    """1000 tokens, 60 requests of 50 at once: exactly 20."""
    model.set(usage="none")
    callers = known("tokens", maximum=1000, procs=2)
    answers = callers.together(60)
    assert [one.status for one in answers].count(200) == callers.count == 20


def test_f3_f4_leaving_does_not_dodge_the_cost(known, model, per):
    """Room for two worst cases. The one that was left keeps its own; after the next, settled at 17,
    there are 33 tokens, and no call fits. Of a call that was given up nothing else remains."""
    model.set(chunks=40, gap_ms=20, **USAGE)
    callers = known("tokens", maximum=2 * WORST)
    call = callers.begin()
    call.wait_for(b'"content":"')
    call.close()
    until(lambda: model.stats()["open"] == 0, 5, "the abort")
    callers.place.settled()
    model.set(chunks=2, gap_ms=0)
    assert callers.statuses(1) == [200]
    callers.place.settled()
    assert callers.chat().code == f"{per}_limit"
    assert callers.statuses(1, who=1) == [200]


def test_f5_the_number_enforced_is_the_number_shown(known, per):
    """Headers, /status and the point of refusal, call by call."""
    callers = known(maximum=3)
    for left in (3, 2, 1):
        said = callers.server.get("/status", headers=[callers.headers[0]], source=next(sources)).json
        shown = next(one for one in said["limits"] if one["name"] == "mine")
        assert (said["available"], shown["remaining"], shown["max"]) == (True, left, 3)
        answer = callers.chat()
        assert (answer.header("X-RateLimit-Limit"), answer.header("X-RateLimit-Remaining")) == ("3", str(left - 1))
    said = callers.server.get("/status", headers=[callers.headers[0]], source=next(sources)).json
    assert (said["available"], said["code"]) == (False, f"{per}_limit")
    assert callers.chat().code == f"{per}_limit"


def test_f6_a_money_limit_without_a_price_admits_nothing(site, per, model):
    place = site(demo={"price-input": None, "price-output": None}, limits={"mine": limit(per, "cost", "day", "$1.00")})
    assert place.run("check", check=False).returncode != 0
    assert place.start().chat().status == 503 and model.count == 0


def test_f7_a_maximum_of_nothing_admits_nothing(known, site, per, model):
    if per == "visitor":  # nobody has a cookie then, and who has none is a visitor too
        server = site(limits={"mine": limit(per, "calls", "day", 0)}).start()
        assert [server.chat(source=next(sources)).code for _ in range(2)] == ["visitor_limit"] * 2
        assert model.count == 0
        return
    callers = known(maximum=0)
    assert callers.chat().code == callers.chat(1).code == f"{per}_limit"
    assert callers.server.chat().status == 200, "who is neither is not bound by it"
    assert callers.count == 1


def test_f9_the_first_call_ever_is_under_the_same_rule(known):
    callers = known(maximum=1)
    assert callers.statuses(2) == [200, 429]
    assert callers.statuses(2, who=1) == [200, 429]


def test_f11_refusals_use_nothing_up(known, per):
    """And write nothing: the file stays as it is, byte for byte."""
    callers = known(window="5s", maximum=2)
    assert callers.statuses(2) == [200, 200]
    callers.place.settled()
    before = callers.place.data()
    refused = [callers.chat() for _ in range(100)]
    assert {one.code for one in refused} == {"burst_limit"}
    assert callers.place.data() == before and callers.count == 2
    until(lambda: callers.chat().status == 200, 10, "room, no later than without refusals")


def test_f12_places_do_not_leak(known, model, per):
    model.set(chunks=400, gap_ms=20)
    callers = known("concurrent", None, 1)
    call = callers.begin()
    call.wait_for(b'"content":"')
    assert callers.chat().code == "concurrent_limit"
    other = callers.begin(1)
    other.wait_for(b'"content":"')
    model.set(chunks=2, gap_ms=0)
    for one in (call, other):
        one.close()
    until(lambda: callers.chat().status == 200, 5, "a free place")


def test_f12_the_place_of_a_killed_process_is_free(known, model, per):
    """And what it had reserved stays charged."""
    model.set(chunks=400, gap_ms=20)
    callers = known("concurrent", None, 1, fits=limit(per, "calls", "day", 3))
    other = callers.place.start()
    call = callers.begin()
    call.wait_for(b'"content":"')
    headers = [callers.headers[0]]
    assert other.chat(ASK, headers=headers, source=next(sources)).code == "concurrent_limit"
    for pid in callers.server.gateways():
        os.kill(pid, signal.SIGKILL)
    model.set(chunks=2, gap_ms=0)
    until(lambda: other.chat(ASK, headers=headers, source=next(sources)).status == 200, 2, "the place")
    call.close()
    said = other.open("GET", "/status", b"", headers, source=next(sources)).answer().json
    assert [one["remaining"] for one in said["limits"] if one["name"] == "fits"] == [1]


def test_f15_parallel_settlements_come_to_the_exact_sum(known, model, per):
    """20 at once, each settled at 17; what is then left of the limit is what 20 x 17 leave."""
    model.set(first_ms=30, **USAGE)
    callers = known("tokens", maximum=20 * WORST, procs=2)
    assert [one.status for one in callers.together(20)] == [200] * 20
    callers.place.settled()
    model.set(first_ms=0, usage="none")
    fits = (20 * WORST - 20 * REAL) // WORST
    assert callers.statuses(fits + 1) == [200] * fits + [429]


@pytest.mark.parametrize("form", ["seconds", "a date"])
def test_f46_what_the_api_refuses_us_is_not_the_callers_doing(known, model, per, form):
    """The call is given back, and the API's own wait is passed on however it is written."""
    callers = known(maximum=1)
    at = datetime.datetime.now(UTC) + 300 * SECOND
    model.set(status=429, retry_after=300 if form == "seconds" else at.strftime("%a, %d %b %Y %H:%M:%S GMT"))
    for code in ("upstream_refused", "upstream_paused"):
        answer = callers.chat()
        assert (answer.status, answer.code) == (503, code)
        assert 270 <= int(answer.header("Retry-After")) <= 300
        callers.place.settled()
    model.reset()
    callers.place.run("forgive", "model", "demo")
    assert callers.statuses(2) == [200, 429]


@pytest.mark.parametrize("unit, maximum", [("calls", 2), ("tokens", 2 * WORST), ("cost", "$0.00018")])
@pytest.mark.parametrize("window, seconds", [("10s", 10), ("1h", 3600)])
def test_f49_a_window_is_not_cut_at_midnight(clock, model, per, unit, maximum, window, seconds):  # noqa: F811
    model.set(usage="none")
    mine = limit(per, unit, window, maximum)
    made = []

    def prepare(place):
        if per == "account":
            made.append(account(place, "user"))

    now = clock(MIDNIGHT - 4 * 3600 * SECOND, fill=prepare, demo=BARE, limits={**WIDE, "mine": mine})
    callers = Known(now.place, per, 1, server=now.server)
    if made:
        callers.headers = made
    now.to(MIDNIGHT - SECOND)
    assert callers.statuses(3) == [200, 200, 429]
    for share in (0, 0.5, 0.95):
        now.to(MIDNIGHT + int((seconds - 2) * share) * SECOND)
        assert callers.statuses(1) == [429], share
    now.to(MIDNIGHT + int(seconds * 9 / 8 + 1) * SECOND)
    assert callers.statuses(3) == [200, 200, 429]


def test_f50_own_limits_leave_the_default_ceilings(site, per):
    defaults = ("visitor-day", "visitor-burst", "visitor-at-once", "site-day")
    place = site(limits={**dict.fromkeys(defaults), "mine": limit(per, "calls", "day", 1000)})
    said = place.run("check")
    for name in (*defaults, "mine"):
        assert re.search(rf"\b{name} ", said), name
    server = place.start()
    assert [server.chat().status for _ in range(11)] == [200] * 10 + [429]


def test_f53_a_changed_limit_counts_what_was_used_before_it(known, per):
    callers = known(maximum=5, procs=2)
    assert callers.statuses(3) == [200] * 3
    callers.place.limits["mine"]["max"] = 3
    callers.place.write()
    assert {one.code for one in callers.together(8)} == {f"{per}_limit"}
    callers.place.limits["mine"]["max"] = 4
    callers.place.write()
    assert sorted(one.status for one in callers.together(8)) == [200] + [429] * 7


@pytest.mark.parametrize("address", [None, 7])
def test_f40_cookies_that_are_collected_bring_what_the_address_has_and_no_more(site, address):
    """Without a limit per address n answers bring n cookies, each with a quota of its own."""
    limits = {**WIDE, "visitor-day": limit("visitor", "calls", "day", 3),
              "visitor-burst": limit("visitor", "calls", "10s", 1000)}
    if address:
        limits["address-day"] = limit("address", "calls", "day", address)
    place = site(limits=limits)
    said = " ".join(place.run("check").split())
    assert ("only a limit per address over as long bounds" in said) == (address is None)
    server = place.start()
    cookies, admitted = [], 0
    while (answer := server.chat()).status == 200:
        cookies.append(cookie(answer))
    refusal = answer.code
    for one in cookies:
        while (answer := server.chat(headers=[one])).status == 200:
            admitted += 1
    assert (len(cookies), admitted) == ((3, 4) if address else (3, 9))
    assert (refusal, answer.code) == ("visitor_limit", "address_limit" if address else "visitor_limit")
