"""Windows across midnight and the end of a month, with the program's clock moved by
clock_shim.c: F43, F44, F49. No test waits for a real midnight."""
import calendar
import datetime
import shutil

import pytest

from harness import ROOT, limit, until

SHIM = ROOT / "build/clock-shim.so"
UTC = datetime.timezone.utc
SECOND = datetime.timedelta(seconds=1)
TODAY = datetime.datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
MIDNIGHT = TODAY + datetime.timedelta(days=1)
LAST = TODAY.replace(day=calendar.monthrange(TODAY.year, TODAY.month)[1])
NEXT_MONTH = LAST + datetime.timedelta(days=1)


@pytest.fixture
def clock(site):
    """A site, started in `mode`, whose programs see the clock that `to` sets."""

    class Clock:
        def __init__(self, begin, mode="spawned", **options):
            self.place = site(init=False, **options)
            self.file = self.place.directory / "offset"
            shim = shutil.copy(SHIM, self.place.directory)  # where its user can read it
            self.place.env = {"LD_PRELOAD": shim, "CLOCK_SHIM": str(self.file)}
            self.to(begin)
            self.place.init()
            self.server = self.place.start(mode)

        def to(self, moment):
            new = self.place.directory / "offset.new"
            offset = (moment - datetime.datetime.now(UTC)) / datetime.timedelta(milliseconds=1)
            new.write_text(f"{offset:.0f}", encoding="ascii")
            new.chmod(0o644)
            new.rename(self.file)

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
