"""Windows across midnight and the end of a month, with the program's clock moved by
clock_shim.c: F43, F44, F49. No test waits for a real midnight."""
import calendar
import datetime

import pytest

from clocks import SECOND, UTC, Clocks
from harness import ROOT, limit, until

TODAY = datetime.datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
MIDNIGHT = TODAY + datetime.timedelta(days=2)  # hours before it are not before the build's date
LAST = MIDNIGHT.replace(day=calendar.monthrange(MIDNIGHT.year, MIDNIGHT.month)[1])
NEXT_MONTH = LAST + datetime.timedelta(days=1)


@pytest.fixture
def clock(site):
    """A site, started in `mode`, whose programs see the clock that `to` sets."""

    class Clock:
        def __init__(self, begin, mode="spawned", env=(), made=60 * SECOND, fill=None, **options):
            """Made so long before `begin` that it does not matter how long that takes. `fill` may
            write another configuration."""
            self.place = site(init=False, **options)
            if fill:
                fill(self.place)
            self.place.env = dict(env)
            self.clocks = Clocks(self.place)
            self.to(begin - made)
            self.place.init()
            self.server = self.place.start(mode)
            assert self.server.get("/v1/models").status == 200, "it has opened its store"
            self.to(begin)

        def to(self, moment):
            self.clocks.set(moment)

        def statuses(self, n):
            return [self.server.chat().status for _ in range(n)]

    return Clock


def test_f49_a_sliding_window_is_not_cut_at_midnight(clock, model):
    """10 calls at 23:59:58 and 10 more at 00:00:02, against 10 in 10 s."""
    now = clock(MIDNIGHT - 2 * SECOND, limits={"visitor-burst": limit("address", "calls", "10s", 10)})
    assert now.statuses(11) == [200] * 10 + [429]
    now.to(MIDNIGHT + 2 * SECOND)
    assert now.statuses(10) == [429] * 10
    now.to(MIDNIGHT + 20 * SECOND)
    assert now.statuses(11) == [200] * 10 + [429]
    assert model.count == 20


@pytest.mark.parametrize("window, seconds", [("10s", 10), ("1m", 60), ("1h", 3600), ("1d", 86400),
                                             ("7d", 604800), ("30d", 2592000)])
def test_no_window_of_its_length_admits_more_wherever_it_lies(clock, model, window, seconds):
    """Full just before midnight; refused for the whole length after it, and not for ever."""
    now = clock(MIDNIGHT - 1 * SECOND, limits={"mine": limit("address", "calls", window, 3)})
    assert now.statuses(4) == [200, 200, 200, 429]
    for share in (0, 0.3, 0.7):
        now.to(MIDNIGHT + int(seconds * share) * SECOND)
        assert now.statuses(1) == [429], share
    now.to(MIDNIGHT + (seconds - 2) * SECOND)
    assert now.statuses(1) == [429]
    now.to(MIDNIGHT + int(seconds * 9 / 8 + 1) * SECOND)
    assert now.statuses(4) == [200, 200, 200, 429]
    assert model.count == 6


def test_a_refusal_tells_when_it_ends(clock, model):
    """Refused one second before the time that Retry-After gives, admitted at it."""
    now = clock(MIDNIGHT - 5 * SECOND, limits={"visitor-burst": limit("address", "calls", "1m", 2)})
    assert now.statuses(2) == [200, 200]
    refused = now.server.chat()
    wait = int(refused.header("Retry-After"))
    assert 54 <= wait <= 68
    now.to(MIDNIGHT + (wait - 5 - 2) * SECOND)
    assert now.statuses(1) == [429]
    now.to(MIDNIGHT + (wait - 5) * SECOND)
    assert now.statuses(1) == [200]


@pytest.mark.parametrize("mode", ["spawned", "cgi"])
def test_f43_the_day_begins_at_midnight(clock, model, mode):
    now = clock(MIDNIGHT - 2 * SECOND, mode, limits={"visitor-day": limit("address", "calls", "day", 2)})
    assert now.statuses(3) == [200, 200, 429]
    now.to(MIDNIGHT)
    assert now.statuses(3) == [200, 200, 429]
    now.to(MIDNIGHT + 86399 * SECOND)
    assert now.statuses(1) == [429]
    now.to(MIDNIGHT + 86400 * SECOND)
    assert now.statuses(1) == [200]


def test_f43_a_month_ends_with_the_month(clock, model):
    now = clock(NEXT_MONTH - 2 * SECOND, limits={"site-month": limit("everyone", "calls", "month", 2)})
    assert now.statuses(3) == [200, 200, 429]
    now.to(NEXT_MONTH)
    assert now.statuses(3) == [200, 200, 429]
    now.to(NEXT_MONTH + 27 * 86400 * SECOND)
    assert now.statuses(1) == [429]


def test_f43_a_stream_across_midnight_settles_against_the_day_it_was_charged_to(clock, model):
    model.set(prompt_tokens=10, completion_tokens=20, chunks=10, gap_ms=50)
    now = clock(MIDNIGHT - 2 * SECOND, demo={"overhead-per-call": 0, "overhead-per-message": 0},
                limits={"budget": limit("everyone", "tokens", "day", 100000)})
    call = now.server.begin("0123456789", stream=True)
    call.wait_for(b'"content":"')
    now.to(MIDNIGHT + 2 * SECOND)
    assert b"[DONE]" in b"".join(data for _, data in call.pieces())
    model.set(gap_ms=0)
    assert now.server.chat("0123456789").status == 200
    until(lambda: now.place.used("budget") == 30, 5, "the new day's own use")


@pytest.mark.parametrize("moment", [datetime.datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC),
                                    datetime.datetime(2019, 5, 5, tzinfo=UTC)])
def test_f44_a_clock_before_the_build_admits_nothing(clock, model, moment):
    now = clock(MIDNIGHT)
    assert now.statuses(1) == [200]
    now.to(moment)
    answer = now.server.chat()
    assert (answer.status, answer.code) == (503, "clock")
    now.to(MIDNIGHT + 5 * SECOND)
    assert now.statuses(1) == [200]
    assert model.count == 2


def test_f44_a_clock_put_back_opens_no_window_again(clock, model):
    now = clock(MIDNIGHT - 7200 * SECOND, limits={"visitor-day": limit("address", "calls", "day", 1)})
    assert now.statuses(2) == [200, 429]
    now.to(MIDNIGHT + 5 * SECOND)
    assert now.statuses(2) == [200, 429]
    now.to(MIDNIGHT - 7100 * SECOND)
    assert now.statuses(2) == [429, 429]
    assert model.count == 2


def test_f44_ten_years_ahead_and_back(clock, model):
    now = clock(MIDNIGHT, limits={"visitor-day": limit("address", "calls", "day", 1)})
    assert now.statuses(2) == [200, 429]
    now.to(MIDNIGHT + 3650 * 86400 * SECOND)
    assert now.statuses(2) == [200, 429]
    now.to(MIDNIGHT + 60 * SECOND)
    assert now.statuses(2) == [429, 429]
    assert "ahead" in now.place.run("check", check=False).stdout


BARE = {"overhead-per-call": 0, "overhead-per-message": 0, "max-output-tokens": 40}
ASK = "0123456789"  # at worst 10 + 40 tokens, or 10 * 1000 + 40 * 2000 nano-dollars
TWO = {"calls": 2, "tokens": 100, "cost": "$0.00018"}  # room for two of them
SUBJECTS = ("address", "anonymous", "everyone")
HOUR = datetime.timedelta(hours=1)


def asked(now, n):
    return [now.server.chat(ASK).status for _ in range(n)]


@pytest.mark.parametrize("window, seconds", [("10s", 10), ("1h", 3600), ("1d", 86400), ("30d", 2592000)])
@pytest.mark.parametrize("unit", TWO)
@pytest.mark.parametrize("per", SUBJECTS)
def test_f49_every_sliding_limit_goes_on_across_midnight(clock, model, per, unit, window, seconds):
    """Used up just before midnight it is so until its length has passed, for whomever it counts
    whatever, and then there is room for as much again and no more."""
    model.set(usage="none")
    now = clock(MIDNIGHT - 1 * SECOND, demo=BARE, limits={"mine": limit(per, unit, window, TWO[unit])})
    assert asked(now, 3) == [200, 200, 429]
    for share in (0, 0.5, 0.95):
        now.to(MIDNIGHT + int((seconds - 2) * share) * SECOND)
        assert asked(now, 1) == [429], share
    now.to(MIDNIGHT + int(seconds * 9 / 8 + 1) * SECOND)
    assert asked(now, 3) == [200, 200, 429]
    assert model.count == 4


@pytest.mark.parametrize("unit", TWO)
@pytest.mark.parametrize("per", SUBJECTS)
@pytest.mark.parametrize("month", [(2027, 1), (2028, 3)], ids=["a new year", "after a leap day"])
def test_f43_every_month_limit_ends_with_the_month(clock, model, per, unit, month):
    first = datetime.datetime(*month, 1, tzinfo=UTC)
    while first <= datetime.datetime.now(UTC):
        first = first.replace(year=first.year + 4)
    model.set(usage="none")
    now = clock(first - 86400 * SECOND - 1 * SECOND, demo=BARE,
                limits={"mine": limit(per, unit, "month", TWO[unit])})
    assert asked(now, 1) == [200]
    now.to(first - 1 * SECOND)  # a midnight within the month changes nothing
    assert asked(now, 2) == [200, 429]
    now.to(first)
    assert asked(now, 3) == [200, 200, 429]
    now.to(first.replace(day=28))
    assert asked(now, 1) == [429]
    assert model.count == 4


@pytest.mark.parametrize("window, length", [("hour", HOUR), ("day", 24 * HOUR)])
@pytest.mark.parametrize("unit", TWO)
@pytest.mark.parametrize("per", SUBJECTS)
def test_f43_every_calendar_limit_begins_anew_at_midnight(clock, model, per, unit, window, length):
    model.set(usage="none")
    now = clock(MIDNIGHT - 1 * SECOND, demo=BARE, limits={"mine": limit(per, unit, window, TWO[unit])})
    assert asked(now, 3) == [200, 200, 429]
    now.to(MIDNIGHT)
    assert asked(now, 3) == [200, 200, 429]
    now.to(MIDNIGHT + length - 1 * SECOND)
    assert asked(now, 1) == [429]
    now.to(MIDNIGHT + length)
    assert asked(now, 3) == [200, 200, 429]
    assert model.count == 6


@pytest.mark.parametrize("window, at", [("day", MIDNIGHT), ("month", NEXT_MONTH)])
def test_f43_the_wait_told_ends_with_the_window(clock, model, window, at):
    """To the second for the caller's own limit: refused one before it, admitted at it."""
    now = clock(at - 7200 * SECOND, limits={"mine": limit("address", "calls", window, 1)})
    assert now.statuses(1) == [200]
    refused = now.server.chat()
    wait = int(refused.header("Retry-After"))
    assert 7190 <= wait <= 7200 and refused.header("X-RateLimit-Reset") == str(wait)
    assert refused.header("x-should-retry") == "false"
    now.to(at - 2 * SECOND)
    assert now.statuses(1) == [429]
    now.to(at)
    assert now.statuses(1) == [200]


def test_f43_a_place_is_taken_across_midnight(clock, model):
    model.set(chunks=600, gap_ms=50)
    now = clock(MIDNIGHT - 1 * SECOND, limits={"visitor-at-once": limit("address", "concurrent", None, 1)})
    call = now.server.begin(stream=True)
    call.wait_for(b'"content":"')
    for moment in (MIDNIGHT, MIDNIGHT + 24 * HOUR, MIDNIGHT + 1000 * HOUR):
        now.to(moment)
        assert now.server.chat().code == "concurrent_limit"
    call.close()
    until(lambda: now.place.stats_of("open_streams") == 0, 5, "a free place")


def test_f43_what_is_settled_after_midnight_is_settled_before_it(clock, model):
    """The new day has use of its own when the old day's stream is settled, and keeps it."""
    model.set(prompt_tokens=10, completion_tokens=20, chunks=40, gap_ms=50)
    now = clock(MIDNIGHT - 2 * SECOND, demo=BARE, limits={
        "day": limit("everyone", "tokens", "day", 100000), "week": limit("everyone", "tokens", "7d", 100000)})
    old = now.place.stats_of("today")
    call = now.server.begin(ASK, stream=True)
    call.wait_for(b'"content":"')
    now.to(MIDNIGHT + 2 * SECOND)
    model.set(gap_ms=0, prompt_tokens=5, completion_tokens=1)
    assert now.server.chat(ASK).status == 200
    until(lambda: now.place.used("day") == 6, 5, "the new day's own use")
    assert now.place.used("week") == 50 + 6, "the stream is reserved still"
    assert b"[DONE]" in b"".join(data for _, data in call.pieces())
    until(lambda: now.place.used("week") == 30 + 6, 5, "the settle of the stream")
    assert now.place.used("day") == 6, "the old day's settle is none of the new day's"
    days = {day["day"]: day for day in now.place.stats()["days"]}
    assert (days[old]["settled"], days[old]["tokens_in"], days[old]["tokens_out"]) == (1, 10, 20)
    today = days[now.place.stats_of("today")]
    assert (today["admitted"], today["settled"], today["tokens_in"], today["tokens_out"]) == (1, 1, 5, 1)


CET = "CET-1CEST,M3.5.0,M10.5.0/3"


@pytest.mark.parametrize("mode", ["spawned", "cgi"])
@pytest.mark.parametrize("sunday, before, after", [(datetime.datetime(2027, 3, 28, tzinfo=UTC), 1, 2),
                                                   (datetime.datetime(2027, 10, 31, tzinfo=UTC), 2, 1)],
                         ids=["the day of 23 hours", "the day of 25 hours"])
def test_f43_days_are_those_of_the_clock_on_the_wall(clock, model, mode, sunday, before, after):
    """The zone is the store's, made by init, whatever zone the web server runs in: so many hours
    ahead of UTC before the change to or from summer time, and after it."""
    now = clock(sunday - before * HOUR - 10 * SECOND, mode, options={"timezone": "local"}, env={"TZ": CET},
                limits={"mine": limit("address", "calls", "day", 1)})
    now.server.stop()
    now.place.env["TZ"] = "Asia/Tokyo"
    now.server = now.place.start(mode)
    assert now.statuses(2) == [200, 429]
    assert int(now.server.chat().header("Retry-After")) <= 10, "it is nearly midnight there"
    now.to(sunday - before * HOUR)
    assert now.statuses(2) == [200, 429]
    now.to(sunday + (24 - after) * HOUR - 10 * SECOND)
    assert now.statuses(1) == [429]
    now.to(sunday + (24 - after) * HOUR)
    assert now.statuses(2) == [200, 429]
    assert model.count == 3


def build_time():
    return datetime.datetime.fromtimestamp(int((ROOT / "build/time").read_text(encoding="ascii")), UTC)


@pytest.mark.parametrize("mode", ["spawned", "cgi"])
def test_f44_both_sides_of_the_build_date(clock, model, mode):
    """A clock before it is not believed; at it, the machine may really have just been flashed."""
    now = clock(build_time() + 2 * SECOND, mode, made=0 * SECOND, limits={"visitor-day": limit("address", "calls", "day", 1)})
    now.to(build_time() - 2 * SECOND)
    for _ in range(2):
        answer = now.server.chat()
        assert (answer.status, answer.code) == (503, "clock")
        assert int(answer.header("Retry-After")) >= 1
    assert "clock" in now.server.log()
    assert model.count == 0
    now.to(build_time())
    assert now.statuses(2) == [200, 429]
    now.to(build_time() - 2 * SECOND)
    assert now.server.chat().code == "clock"
    assert now.place.run("check", check=False).returncode != 0
    assert now.place.run("init", check=False).returncode != 0


@pytest.mark.parametrize("mode", ["spawned", "cgi"])
def test_f44_the_story_of_a_bad_clock(clock, model, mode):
    """1970, the right time, two hours back, ten years ahead, back: a day never has more than its
    one call, and each day that passes has one again at the latest after twice its length."""
    now = clock(MIDNIGHT + 2 * HOUR, mode, limits={"visitor-day": limit("address", "calls", "day", 1)})
    now.to(datetime.datetime(1970, 1, 1, tzinfo=UTC))
    assert now.server.chat().code == "clock"
    now.to(MIDNIGHT + 3 * HOUR)
    assert now.statuses(2) == [200, 429]
    now.to(MIDNIGHT + 1 * HOUR)
    assert now.statuses(1) == [429]
    now.to(MIDNIGHT - 1 * HOUR)  # the day before: it is over
    assert now.statuses(1) == [429]
    now.to(MIDNIGHT + 87600 * HOUR)
    assert now.statuses(2) == [200, 429]
    now.to(MIDNIGHT + 4 * HOUR)
    assert now.statuses(1) == [429]
    now.to(MIDNIGHT + 28 * HOUR)  # the store's time is years ahead, and stays there
    refused = now.server.chat()
    assert refused.status == 429 and int(refused.header("Retry-After")) <= 2 * 86400
    assert "ahead" in now.place.run("clock")
    now.place.run("clock", "reset")
    assert now.statuses(2) == [200, 429]
    assert model.count == 3
