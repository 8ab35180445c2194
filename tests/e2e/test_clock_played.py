"""F44, clock and boot played through by real processes: each scenario is a list of steps, carried
out with FastCGI processes that live across the steps, with CGI, and with both of them in turn.

What holds in all of them is checked after every request: of the calls that reached the model no day
of the store's time has more than the day's limit, and no month more than the month's. What a
scenario says of the answers is about the limits becoming free again, and about being refused."""
import collections
import contextlib
import datetime
import os
import signal
import sys
import time

import pytest

from clocks import SECOND, UTC, Clocks
from direct import cgi
from harness import ROOT, limit, until
from test_midnight import HOUR, NEXT_MONTH, build_time
from test_periods import keys

sys.path.append(str(ROOT / "tests/property"))

from civil import libc_date  # noqa: E402: shared with the property tests

DAY = datetime.timedelta(days=1)
# Far enough after the build for a clock that is days behind; not near a month's end.
NOON = (NEXT_MONTH + 40 * DAY).replace(day=10) + 12 * HOUR
NEXT_DAY = NOON + 12 * HOUR
IN_1970 = datetime.datetime(1970, 1, 1, 0, 0, 7, tzinfo=UTC)
MAX = {"day": 2, "month": 50}
WAYS = ["fastcgi", "cgi", "both"]


def rows(place):
    """How many counter rows there are, as the export tells."""
    path = place.directory / "export.jsonl"
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    place.run("export", path)
    return path.read_text(encoding="utf-8").count('"slot"')


class Played:
    """A site on a machine whose clocks the steps move. A step is a method's name and its arguments."""

    def __init__(self, site, model, way, **options):
        limits = {"site-day": limit("everyone", "calls", "day", MAX["day"]),
                  "site-month": limit("everyone", "calls", "month", MAX["month"])}
        options["limits"] = {**limits, **options.get("limits", {})}
        self.environment = options.pop("env", {})
        self.boots = options.pop("boots", False)
        self.place, self.model, self.way = site(init=False, **options), model, way
        self.place.env = dict(self.environment)
        self.clocks = Clocks(self.place)
        self.server, self.asked, self.admitted = None, 0, 0
        self.by_day = collections.Counter()
        self.kept = {}

    def play(self, steps):
        for number, (name, *arguments) in enumerate(steps, 1):
            try:
                getattr(self, name)(*arguments)
            except AssertionError as error:
                raise AssertionError(f"step {number}, {name} {arguments}: {error}") from error

    # ---- the machine ----

    def made(self, moment):
        """The store is made, and a web server starts what the requests need."""
        self.clocks.boot(moment)
        self.place.init()
        self._start()

    def _start(self):
        self.server = self.place.start({"fastcgi": "spawned", "cgi": "cgi", "both": "external"}[self.way])

    def boot(self, moment, uptime=10 * SECOND, has_id=True):
        """The power fails, and the machine is on again."""
        gateways = self.server.gateways()
        for pid in [self.server.process.pid, *gateways]:  # that one first: it would start them again
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.server.stop()
        self.clocks.boot(moment, uptime)
        if not has_id:
            self.clocks.forget_boot_id()
        if self.place.socket.exists():
            self.place.socket.unlink()
        self._start()

    def clock(self, moment):
        """Somebody sets the clock; or it is another one after a boot."""
        if self.boots:
            self.boot(moment)
        else:
            self.clocks.set(moment)

    def passes(self, span):
        self.clocks.go_on(span)

    def boot_time_back(self, span):
        self.clocks.boot_back(span)

    def boot_id_is_there(self, moment):
        """Without a restart: what could not be read once is read the next time."""
        self.clocks.boot(moment)

    # ---- requests ----

    def opens(self):
        """What cannot open the store tries it again a second later at the earliest."""
        until(lambda: self.server.get("/v1/models").status == 200, 5, "an open store")

    def _ask(self):
        self.asked += 1
        if self.way == "both" and self.asked % 2 == 0:
            return cgi(self.place, address="127.0.0.1")[0]
        return self.server.chat()

    def ask(self, n, admitted, code=None):
        """So many requests, of which so many are admitted, first of all; the others hear the code."""
        answers = [self._ask() for _ in range(n)]
        assert [answer.status == 200 for answer in answers] == [True] * admitted + [False] * (n - admitted), \
            [answer.status for answer in answers]
        assert {answer.code for answer in answers[admitted:]} <= {code}
        self.last = answers[-1]
        self.admitted += admitted
        assert self.model.count == self.admitted
        if admitted:
            self._count(admitted)

    def _count(self, admitted):
        day = self.place.stats_of("today")
        self.by_day[day] += admitted
        assert self.by_day[day] <= self.place.limits["site-day"]["max"]
        assert sum(n for name, n in self.by_day.items() if name[:7] == day[:7]) <= MAX["month"]

    def waits(self):
        """What the last one was told is true: refused shortly before it, admitted after it. The time
        told of everyone's limits is rounded up to the minute."""
        wait = int(self.last.header("Retry-After")) * SECOND
        self.passes(wait - 70 * SECOND)
        self.ask(1, 0, "site_limit")
        self.passes(70 * SECOND)
        self.ask(1, 1)

    def waits_between(self, least, most):
        wait = int(self.last.header("Retry-After")) * SECOND
        assert least <= wait <= most + 60 * SECOND, f"told to wait {wait}"

    # ---- what the owner sees ----

    def says(self, command, text, status=0):
        done = self.place.run(*command.split(), check=False)
        assert done.returncode == status, done.stdout + done.stderr
        told = " ".join((done.stdout + done.stderr).split())
        assert text in told, told

    def stats(self, name, value):
        assert self.place.stats_of(name) == value

    def day(self, name, value):
        assert self.place.day()[name] == value, self.place.day()

    def uses(self, name, value):
        until(lambda: self.place.used(name) == value, 5, f"{value} used of {name}")

    def reset(self):
        self.place.run("clock", "reset")

    def maintain(self):
        self.place.run("maintain")

    # ---- what is kept ----

    def keep(self, name):
        """Notes what it is now."""
        self.kept[name] = getattr(self, "see_" + name)()

    def same(self, name):
        assert self.kept[name] == getattr(self, "see_" + name)(), name

    def changed(self, name):
        assert self.kept[name] != getattr(self, "see_" + name)(), name

    def see_store(self):
        return self.place.data(), self.place.periods.read_bytes()

    def see_keys(self):
        return keys(self.place)

    def see_rows(self):
        return rows(self.place)

    def see_processes(self):
        return None if self.boots or self.way == "cgi" else self.server.gateways()

    # ---- a stream ----

    def begin(self):
        """A stream that the model does not end."""
        self.model.set(chunks=1000, gap_ms=50)
        self.stream = self.server.begin(stream=True)
        self.stream.wait_for(b'"content":"')
        self.admitted += 1
        self._count(1)
        self.model.set(chunks=3, gap_ms=0)

    def leave(self):
        self.stream.close()


SCENARIOS = {
    "a machine without a clock boots in 1970, and NTP brings the time": [
        ("made", NOON), ("ask", 1, 1),
        ("keep", "store"), ("boot", IN_1970), ("ask", 3, 0, "clock"), ("keep", "processes"),
        ("passes", 3 * HOUR), ("ask", 1, 0, "clock"),
        ("says", "check", "before the build date; set the clock", 1),
        ("says", "clock", "set the clock", 1), ("says", "clock reset", "set the clock", 1),
        ("says", "maintain", "set the clock", 1), ("same", "store"),
        ("clock", NOON + 4 * HOUR), ("opens",), ("ask", 2, 1, "site_limit"), ("same", "processes"),
        ("says", "clock", "the store's time is the clock's"), ("says", "check", "0 faults"),
        ("clock", NEXT_DAY), ("ask", 3, 2, "site_limit"),
    ],
    "it boots just before the time of the build, and just after it": [
        ("made", build_time() + 5 * SECOND), ("ask", 1, 1),
        ("boot", build_time() - 30 * SECOND), ("ask", 2, 0, "clock"),
        ("boot", build_time() + 1 * SECOND), ("ask", 2, 1, "site_limit"),
        ("clock", build_time() + DAY), ("ask", 3, 2, "site_limit"),
    ],
    "the clock is days behind the store, and stays so": [
        ("made", NOON), ("ask", 3, 2, "site_limit"),
        ("boot", NOON - 5 * DAY), ("ask", 2, 0, "site_limit"),
        ("waits_between", 23 * HOUR, 24 * HOUR),  # the half of a day is left, at half speed
        ("says", "check", "its time is 5d ahead of the clock (see pennygate clock)"),
        ("says", "stats", "5d ahead"), ("says", "clock", "5d ahead of the clock; it goes on at half speed"),
        ("clock", NOON - 2 * DAY), ("ask", 2, 0, "site_limit"),
        ("clock", NOON - 4 * DAY), ("ask", 2, 0, "site_limit"), ("waits",), ("ask", 2, 1, "site_limit"),
        ("waits_between", 47 * HOUR, 48 * HOUR), ("waits",),
    ],
    "it is behind after each of many boots": [
        ("made", NOON), ("ask", 3, 2, "site_limit"),
        *[step for day in (3, 5, 7) for step in (
            ("boot", NOON - day * DAY, 1 * HOUR), ("ask", 1, 0, "site_limit"), ("maintain",),
            ("passes", 5 * HOUR), ("maintain",))],
        ("boot", NOON - 9 * DAY, 5 * HOUR), ("ask", 1, 0, "site_limit"),
        ("passes", 2 * HOUR), ("ask", 3, 2, "site_limit"),
    ],
    "NTP steps the clock forward by months, and back": [
        ("made", NOON), ("ask", 3, 2, "site_limit"), ("keep", "keys"), ("keep", "rows"),
        ("clock", NOON + 100 * DAY), ("ask", 4, 2, "site_limit"), ("same", "keys"),
        ("passes", 11 * HOUR), ("ask", 1, 0, "site_limit"),
        ("passes", 2 * HOUR), ("ask", 3, 2, "site_limit"), ("same", "keys"),
        ("passes", 12 * HOUR), ("ask", 1, 0, "site_limit"), ("maintain",), ("changed", "keys"),
        ("clock", NOON + 2 * HOUR), ("ask", 2, 0, "site_limit"),
        ("waits_between", 20 * HOUR, 22 * HOUR + 1 * HOUR),
        ("waits",), ("ask", 2, 1, "site_limit"),
    ],
    "a step forward that was wrong is taken back by the owner within a day": [
        ("made", NOON), ("ask", 3, 2, "site_limit"),
        ("clock", NOON + 100 * DAY), ("ask", 3, 2, "site_limit"), ("maintain",), ("maintain",),
        ("clock", NOON + 1 * HOUR), ("ask", 1, 0, "site_limit"), ("reset",),
        ("ask", 3, 0, "site_limit"), ("uses", "site-day", 4), ("uses", "site-month", 4),
        ("clock", NEXT_DAY), ("ask", 3, 2, "site_limit"),
    ],
    "the clock is ten years ahead, and back, and is reset": [
        ("made", NOON), ("ask", 1, 1), ("keep", "processes"),
        ("clock", NOON + 3650 * DAY), ("ask", 2, 2), ("ask", 1, 0, "site_limit"), ("keep", "keys"),
        ("clock", NOON + 2 * HOUR), ("ask", 2, 0, "site_limit"), ("says", "check", "ahead of the clock"),
        ("passes", 40 * HOUR), ("ask", 3, 2, "site_limit"),
        ("clock", NOON + 3 * HOUR), ("reset",), ("changed", "keys"),
        ("says", "clock", "the store's time is the clock's"), ("says", "check", "0 faults"),
        ("ask", 2, 0, "site_limit"), ("uses", "site-day", 3), ("uses", "site-month", 5),
        ("stats", "today", str(NOON.date())), ("same", "processes"),
        ("clock", NEXT_DAY), ("ask", 3, 2, "site_limit"),
    ],
    "what the power took is charged, and its place is free": [
        ("made", NOON), ("begin",), ("stats", "open_streams", 1), ("boot", NOON + 1 * HOUR),
        ("stats", "open_streams", 0), ("uses", "site-day", 1), ("day", "unknown", 0), ("ask", 3, 1, "site_limit"),
        ("stats", "open_streams", 0), ("uses", "site-day", 2), ("day", "unknown", 1),
    ],
    "what the power took is charged, also if the clock comes back in 1970": [
        ("made", NOON), ("begin",), ("boot", IN_1970), ("ask", 1, 0, "clock"),
        ("clock", NOON - 1 * DAY), ("opens",), ("stats", "open_streams", 0), ("uses", "site-day", 1),
        ("ask", 3, 1, "site_limit"), ("clock", NOON + 20 * DAY), ("ask", 3, 2, "site_limit"),
    ],
    "the boot id cannot be read, and then it can": [
        ("made", NOON), ("ask", 1, 1), ("boot", NOON, 10 * SECOND, False), ("keep", "store"), ("ask", 3, 0, "clock"),
        ("says", "check", "the clock cannot be read", 1), ("same", "store"),
        ("boot_id_is_there", NOON + 1 * HOUR), ("opens",), ("ask", 2, 1, "site_limit"), ("says", "check", "0 faults"),
    ],
    "the machine sleeps over midnight, and for a week": [
        ("made", NOON), ("ask", 3, 2, "site_limit"), ("keep", "processes"),
        ("passes", 13 * HOUR), ("ask", 3, 2, "site_limit"), ("keep", "keys"),
        ("passes", 7 * DAY), ("ask", 3, 2, "site_limit"), ("maintain",), ("changed", "keys"),
        ("same", "processes"), ("says", "check", "0 faults"),
    ],
    "it sleeps while an answer is under way": [
        ("made", NOON), ("begin",), ("passes", 13 * HOUR), ("ask", 3, 2, "site_limit"),
        ("leave",), ("stats", "open_streams", 0), ("uses", "site-day", 2), ("uses", "site-month", 3),
    ],
    "boot time goes back, which it never does": [
        ("made", NOON), ("passes", 1 * HOUR), ("ask", 1, 1), ("boot_time_back", 1 * HOUR),
        ("ask", 2, 1, "site_limit"), ("clock", NEXT_DAY), ("ask", 3, 2, "site_limit"),
        ("clock", NOON), ("ask", 1, 0, "site_limit"), ("clock", NEXT_DAY + DAY), ("ask", 3, 2, "site_limit"),
        ("says", "check", "0 faults"),
    ],
    "a clock that cannot be believed, again and again": [
        ("made", NOON), ("ask", 1, 1),
        *[step for hour in range(1, 4) for step in (
            ("clock", IN_1970), ("ask", 1, 0, "clock"), ("clock", NOON + hour * HOUR))],
        ("ask", 2, 1, "site_limit"), ("says", "check", "0 faults"),
    ],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", SCENARIOS)
def test_f44_played(site, model, way, name):
    Played(site, model, way).play(SCENARIOS[name])


@pytest.mark.parametrize("name", SCENARIOS)
def test_f44_played_with_a_boot_at_each_step(site, model, name):
    """Wherever a scenario sets the clock the power fails, and it is another one after the boot."""
    Played(site, model, "both", boots=True).play(SCENARIOS[name])


def test_f44_init_in_1970_makes_nothing(site, model):
    played = Played(site, model, "cgi")
    played.clocks.boot(IN_1970)
    played.place.store.mkdir(mode=0o700)
    played.place.own(played.place.store)
    played.says(" ".join(["init", *played.place.owner()]), "set the clock", 1)
    assert not played.place.data_file.exists()
    played.made(NOON)
    played.ask(3, 2, "site_limit")


def test_f44_a_reset_carries_what_is_shared_and_forgets_callers(site, model):
    """By FastCGI processes that go on: who was over his own limit is not any more; all anonymous
    callers together and everyone are charged what they were, in the windows of the new time."""
    limits = {"mine": limit("address", "calls", "7d", 1), "guests": limit("anonymous", "calls", "30d", 3),
              "site-day": limit("everyone", "calls", "day", 4)}
    played = Played(site, model, "fastcgi", limits=limits)
    played.play([
        ("made", NOON), ("ask", 2, 1, "address_limit"), ("clock", NOON + 3650 * DAY), ("ask", 2, 1, "address_limit"),
        ("clock", NOON + 1 * HOUR), ("keep", "processes"), ("ask", 1, 0, "address_limit"), ("keep", "keys"),
        ("reset",), ("changed", "keys"), ("uses", "site-day", 2), ("uses", "guests", 2), ("ask", 2, 1, "address_limit"),
        ("reset",), ("uses", "guests", 3), ("uses", "site-day", 3), ("ask", 1, 0, "anonymous_limit"),
        ("same", "processes"), ("says", "check", "0 faults"), ("clock", NEXT_DAY), ("ask", 1, 0, "anonymous_limit"),
        ("clock", NEXT_DAY + 34 * DAY), ("ask", 2, 1, "address_limit")])


# ---- the calendar ----

YEAR = max(NOON.year + 1, 2027)
LEAP = YEAR + -YEAR % 4
ZONES = {
    "Berlin": ("CET-1CEST,M3.5.0,M10.5.0/3", [(3, 25, 31), (10, 25, 31)]),
    "Santiago, at midnight": ("<-04>4<-03>,M9.1.6/24,M4.1.6/24", [(4, 1, 8), (9, 1, 8)]),
    "Havana, at midnight": ("CST5CDT,M3.2.0/0,M11.1.0/1", [(3, 8, 14), (11, 1, 7)]),
    "Lord Howe, half an hour": ("<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", [(4, 1, 7), (10, 1, 7)]),
}


@pytest.fixture
def zone_of_tests(monkeypatch):
    """What civil.libc_date changes is put back."""
    monkeypatch.setenv("TZ", "UTC0")
    yield
    monkeypatch.undo()
    time.tzset()


def libc_offset(rule, at):
    libc_date(rule, 0)
    return time.localtime(at.timestamp()).tm_gmtoff


def instants(first, last):
    """Each half hour, and both sides of each of them."""
    at = first
    while at < last:
        yield from (at - 2 * SECOND, at)
        at += HOUR / 2


@pytest.mark.parametrize("way", ["fastcgi", "both"])
@pytest.mark.parametrize("name", ZONES)
def test_f43_each_civil_date_has_its_one_call(site, model, zone_of_tests, way, name):
    """Around both changes of a year: whenever a date is reached that has not been there before, and
    at no other time, one call is admitted. Where the clock is put back over midnight a date comes
    twice, and has no second one."""
    rule, changes = ZONES[name]
    played = Played(site, model, way, env={"TZ": rule}, options={"timezone": "local"},
                    limits={"site-day": limit("everyone", "calls", "day", 1)})
    for number, (month, first, last) in enumerate(changes):
        days = (datetime.datetime(YEAR, month, mday, tzinfo=UTC) for mday in range(first, last + 1))
        sunday = next(day for day in days
                      if libc_offset(rule, day - DAY) != libc_offset(rule, day + 2 * DAY))
        played.clock(sunday - 20 * HOUR) if number else played.made(sunday - 20 * HOUR)
        latest = None
        for at in instants(sunday - 18 * HOUR, sunday + 32 * HOUR):
            date = libc_date(rule, round(at.timestamp()) * 1000)
            fresh = latest is None or date > latest
            played.clock(at)
            played.ask(1, int(fresh), "site_limit")
            latest = date if fresh else latest
    assert played.admitted == len(played.by_day)


@pytest.mark.parametrize("year", [YEAR + (YEAR % 4 == 0), LEAP], ids=["of 365 days", "of 366 days"])
def test_f43_each_month_of_a_year_has_its_one_call(site, model, year):
    """28 and 29 February, 1 March, 31 December and all the others: each last second is of the old
    month and each first one of the new one."""
    played = Played(site, model, "both", limits={"site-month": limit("everyone", "calls", "month", 1)})
    played.made(datetime.datetime(year - 1, 12, 31, 23, 0, tzinfo=UTC))
    played.ask(2, 1, "site_limit")
    for month in range(1, 14):
        first = datetime.datetime(year + month // 13, (month - 1) % 12 + 1, 1, tzinfo=UTC)
        played.clock(first - 2 * SECOND)
        played.ask(1, 0, "site_limit")
        played.clock(first)
        played.ask(2, 1, "site_limit")
        played.clock(first + 26 * DAY)  # the 27th
        played.ask(1, 0, "site_limit")
    assert played.admitted == 14 and len(played.by_day) == 14


@pytest.mark.parametrize("year", [YEAR + (YEAR % 4 == 0), LEAP], ids=["of 365 days", "of 366 days"])
def test_f43_each_day_around_the_end_of_february_and_december(site, model, year):
    played = Played(site, model, "both", limits={"site-day": limit("everyone", "calls", "day", 1)})
    played.made(datetime.datetime(year, 2, 26, 23, 0, tzinfo=UTC))
    for first in (datetime.datetime(year, 2, 27, tzinfo=UTC), datetime.datetime(year, 12, 30, tzinfo=UTC)):
        for day in range(5):
            played.clock(first + day * DAY)
            played.ask(2, 1, "site_limit")
            played.clock(first + (day + 1) * DAY - 2 * SECOND)
            played.ask(1, 0, "site_limit")
    dates = {f"{year}-02-27", f"{year}-02-28", f"{year}-03-01", f"{year}-12-31", f"{year + 1}-01-01"}
    assert dates <= set(played.by_day) and (f"{year}-02-29" in played.by_day) == (year % 4 == 0)
