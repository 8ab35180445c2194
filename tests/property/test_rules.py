"""Never over, exact waits, exact sums: a small model of a store that leaves every decision to
the C code, beside a list of what was admitted that is counted without it.

The model keeps rows by subject, window, slot and period as the real store does, and erases them
as early as it may. The list knows nothing of slots: it holds for each admitted request the store
time, the local date that libc says, and what it costs by now.
"""
import dataclasses
import datetime

import civil
import machine
import pure
import pytest
from hypothesis import assume, event, given, settings, strategies as st

SLIDINGS = ["1s", "8s", "10s", "59s", "60s", "1h", "1d", "7d", "8d", "30d", "366d"]
CALENDAR = ["hour", "day", "month"]
WINDOWS = [*SLIDINGS, *CALENDAR]
ZONES = ["UTC0", "CET-1CEST,M3.5.0,M10.5.0/3", "EST5EDT,M3.2.0,M11.1.0", "IST-5:30",
         "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", "EET-2EEST,M3.5.0/0,M10.5.0/0",
         "CST5CDT,M3.2.0/0,M11.1.0/1", "EST5EDT,M3.2.0,M11.1.0/0:30", "<+14>-14", "<-12>12"]
SHARED = (pure.ANONYMOUS, pure.EVERYONE)
CALLERS = ["a", "b"]  # two addresses

# Midnights at which something happens: month and year ends, a leap day, changes of the clocks.
NIGHTS = ["2023-12-31", "2024-02-28", "2024-02-29", "2024-03-10", "2024-03-30", "2024-03-31",
          "2024-04-30", "2024-10-26", "2024-10-27", "2024-11-03", "2025-01-01", "2025-02-28"]


def night_ms(text):
    return civil.days(datetime.date.fromisoformat(text)) * pure.DAY_MS


@dataclasses.dataclass
class Admission:
    caller: str
    time_ms: int
    date: datetime.date
    reserved: list
    now: list  # what it costs by now, by unit
    rows: list
    live: bool = True


class Site:
    """A store, a configuration, and the list of what was admitted."""

    def __init__(self, limits, rule, start_ms):
        self.limits, self.machine = limits, machine.Machine(start_ms)
        self.set_zone(rule)
        self.zone_changed = False  # then a day that began once can begin again
        self.rows, self.ends, self.admitted = {}, {}, []

    def set_zone(self, rule):
        self.rule, self.zone, self.zone_changed = rule, pure.zone(rule), True

    def pairs(self):
        """The counters that the limits need, without their use."""
        return {(x.subject, pure.window_code(x.window)): x.window
                for x in self.limits if x.unit != pure.CONCURRENT}

    def counters(self, caller, t_ms):
        """All counters at an instant, and the row that each of them charges."""
        counters, charged = [], []
        for (subject, code), w in self.pairs().items():
            c, who = pure.Counter(subject=subject, window=w), "" if subject in SHARED else caller
            c.begins_ms = pure.begins_ms(w, self.zone, t_ms)
            oldest = pure.oldest_period(w, self.zone, t_ms)
            found = pure.slots(w, self.zone, t_ms)
            c.slots = len(found)
            for i, slot in enumerate(found):
                key = (subject, who, code, slot.number, slot.period)
                assert slot.end_ms > t_ms and slot.period >= oldest  # row and key are there
                self.ends[key] = slot.end_ms
                c.slot[i].frees_ms = pure.frees_ms(w, self.zone, t_ms, slot)
                c.slot[i].used.of[:] = self.rows.get(key, [0, 0, 0])
                if i == 0:
                    charged.append(key)
            counters.append(c)
        return counters, charged

    def live(self, subject, caller):
        return sum(a.live for a in self.admitted if subject in SHARED or a.caller == caller)

    def ask(self, caller, weights, t_ms):
        counters, charged = self.counters(caller, t_ms)
        live = [self.live(s, caller) for s in range(pure.SUBJECTS)]
        v = pure.decide(self.limits, counters, weights, t_ms, live=live)
        if any(x.dry_run for x in self.limits):
            self.dry_runs_change_nothing(v, lambda some: pure.decide(some, counters, weights,
                                                                     t_ms, live=live))
        return v, charged

    def dry_runs_change_nothing(self, v, decide):
        """As without them; and each says what it alone would have done."""
        w = decide([x for x in self.limits if not x.dry_run])
        assert (v.outcome, v.refusal, v.until_ms) == (w.outcome, w.refusal, w.until_ms)
        assert v.n_standings == w.n_standings
        for one, other in zip(v.standings[:v.n_standings], w.standings):
            assert bytes(one) == bytes(other)
        for i, x in enumerate(self.limits):
            alone = pure.Limit(x.name, x.subject, x.unit, x.window, x.max, False, x.pace)
            would = x.dry_run and decide([alone]).outcome != pure.ADMITTED
            assert bool(v.dry >> i & 1) == would

    def erase(self, t_ms):
        ended_ms = pure.storetime_erase_ms(self.machine.stored, t_ms)
        self.rows = {k: v for k, v in self.rows.items() if self.ends[k] > ended_ms}

    def reserve(self, caller, weights):
        """One request: asked from what is stored, then, if it may be, in a write."""
        v, _ = self.ask(caller, weights, self.machine.time())
        if v.outcome == pure.ADMITTED:
            self.machine.write()
            t_ms = self.machine.stored.time_ms
            self.erase(t_ms)
            v, charged = self.ask(caller, weights, t_ms)
            assert v.outcome == pure.ADMITTED
            self.must_fit(caller, weights, t_ms)
            for key in charged:
                row = self.rows.setdefault(key, [0, 0, 0])
                row[:] = [x + y for x, y in zip(row, weights)]
            self.admitted.append(Admission(caller, t_ms, civil.libc_date(self.rule, t_ms),
                                           weights, weights, charged))
        return v

    def settle(self, a, real):
        for key in a.rows:
            if key in self.rows:
                self.rows[key] = pure.settle(self.rows[key], a.reserved, real)
        a.now, a.live = real, False

    # What the list says.

    def within(self, limit, caller, t_ms, parts=pure.PARTS):
        """What is admitted in the window that ends with an instant: sliding, in eighths."""
        w, date = limit.window, civil.libc_date(self.rule, t_ms)
        for a in self.admitted:
            if limit.subject not in SHARED and a.caller != caller:
                continue
            if ((w.kind == pure.SLIDING and t_ms - w.seconds * 125 * parts <= a.time_ms)
                    or (w.kind == pure.HOUR and a.time_ms // pure.HOUR_MS == t_ms // pure.HOUR_MS)
                    or (w.kind == pure.DAY and a.date == date)
                    or (w.kind == pure.MONTH and a.date.replace(day=1) == date.replace(day=1))):
                yield a

    def used(self, limit, caller, t_ms, parts=pure.PARTS):
        return sum(a.now[limit.unit] for a in self.within(limit, caller, t_ms, parts))

    def may_use(self, limit, t_ms):
        """What the limit lets be used by now: all of it, or what is released."""
        if not limit.pace or limit.max == pure.UNLIMITED:
            return limit.max
        begins_ms = pure.begins_ms(limit.window, self.zone, t_ms)
        length_ms = next_edge_at_ms(self.zone, limit.window, t_ms) - begins_ms
        part_ms = t_ms - begins_ms + length_ms // 12
        return limit.max * min(length_ms, part_ms) // length_ms

    def must_fit(self, caller, weights, t_ms):
        for x in self.limits:
            if x.dry_run:
                continue
            if x.unit == pure.CONCURRENT:
                assert self.live(x.subject, caller) < x.max
            else:
                assert x.max > 0
                assert self.used(x, caller, t_ms) + weights[x.unit] <= self.may_use(x, t_ms)

    def must_not_fit(self, v, caller, weights, t_ms):
        """A refusal is no whim: the limit that named it is full, an eighth forgiven."""
        x = self.limits[v.limit]
        assert not x.dry_run
        if x.unit == pure.CONCURRENT:
            assert self.live(x.subject, caller) >= x.max
        elif v.outcome == pure.TOO_LONG:
            assert weights[x.unit] > x.max and x.unit != pure.CALLS
        else:
            used = self.used(x, caller, t_ms, pure.PARTS + 1)
            assert x.max == 0 or used + weights[x.unit] > self.may_use(x, t_ms)

    def wait_is_exact(self, v, caller, weights, t_ms):
        """Nothing else changing, refused until the instant and admitted at it, unless a paced
        window that has begun since has not released enough yet. Where a date comes again before
        the one after it goes on, its row is asked meanwhile: nothing is said of that."""
        def number(x, at_ms):
            return pure.slots(x.window, self.zone, at_ms)[0].number

        if any(x.pace and number(x, v.until_ms - 1) < number(x, t_ms) for x in self.limits):
            return
        late, _ = self.ask(caller, weights, v.until_ms - 1)
        assert late.outcome == pure.REFUSED
        then, _ = self.ask(caller, weights, v.until_ms)
        if then.outcome != pure.ADMITTED:
            x = self.limits[then.limit]
            assert x.pace and pure.begins_ms(x.window, self.zone, v.until_ms) > t_ms
            assert weights[x.unit] > self.may_use(x, v.until_ms)

    def rows_are_exact(self):
        """F15: each row is the sum of what was charged to it, to the last unit."""
        for key, row in self.rows.items():
            mine = [a.now for a in self.admitted if key in a.rows]
            assert row == [sum(x[u] for x in mine) for u in range(3)]

    def no_interval_is_over(self):
        """Wherever an interval of a sliding limit's length begins, it holds at most max."""
        for x in self.limits:
            if x.dry_run or x.unit == pure.CONCURRENT or x.window.kind != pure.SLIDING:
                continue
            for first in self.admitted:
                end_ms = first.time_ms + x.window.seconds * 1000
                held = [a for a in self.within(x, first.caller, end_ms) if a.time_ms <= end_ms]
                assert sum(a.now[x.unit] for a in held) <= x.max


# Limits, and what happens.

# Mostly such that something is admitted and something refused.
maxima = {pure.CALLS: st.integers(1, 12), pure.TOKENS: st.integers(60, 400),
          pure.COST: st.integers(900, 6000), pure.CONCURRENT: st.integers(1, 8)}
subjects = st.sampled_from([pure.ADDRESS, pure.ANONYMOUS, pure.EVERYONE])


def make_limit(subject, unit, text, limit_max, dry_run=False, pace=False):
    return pure.Limit(b"", subject, unit, pure.window(text), limit_max, dry_run, pace)


@st.composite
def limits(draw, units=(pure.CALLS, pure.TOKENS, pure.COST, pure.CONCURRENT), windows=WINDOWS):
    unit = draw(st.sampled_from(units))
    sort = draw(st.integers(0, 19))
    highest = {0: st.just(0), 1: st.just(pure.UNLIMITED), 2: st.integers(0, 60)}.get(
        sort, maxima[unit])
    text = draw(st.sampled_from(windows))
    pace = text in CALENDAR and unit != pure.CONCURRENT and draw(st.booleans())
    dry_run = draw(st.integers(0, 5)) == 0
    return make_limit(draw(subjects), unit, text, draw(highest), dry_run, pace)


weights = st.tuples(st.just(1), st.integers(0, 60), st.integers(0, 900)).map(list)
jitters = st.sampled_from([-1, 0, 0, 1])
which = st.integers(0, 63)
callers = st.sampled_from(CALLERS)
bursts = st.tuples(st.just("burst"), callers, st.integers(1, 12), weights)
moves = st.one_of(
    st.tuples(st.just("tick"), machine.spans),
    st.tuples(st.just("edge"), which, jitters),
    st.tuples(st.just("edge"), which, jitters),
    st.tuples(st.just("length"), which, jitters),
    st.tuples(st.just("midnight"), jitters))
clock_events = st.one_of(
    st.tuples(st.just("step"), machine.steps),
    st.tuples(st.just("boot"), machine.spans, machine.steps))
settles = st.tuples(st.just("settle"), which, st.integers(0, 100))
# So that an example is no long list of nothing: each round moves, asks, and may do more.
rounds = st.tuples(moves, bursts, st.one_of(settles, settles, bursts, st.none()))


def move_to(site, t_ms):
    site.machine.tick(site.machine.wait_ms(t_ms))


def next_edge_at_ms(z, w, t_ms):
    """When the newest slot of a window is followed by the next one."""
    if w.kind == pure.SLIDING:
        part_ms = w.seconds * 125
        return (t_ms // part_ms + 1) * part_ms
    return pure.frees_ms(w, z, t_ms, pure.slots(w, z, t_ms)[0])


def next_edge_ms(site, w):
    return next_edge_at_ms(site.zone, w, site.machine.time())


def play_move(site, move):
    windows = list(site.pairs().values()) or [pure.window("day")]
    match move:
        case ("edge", i, jitter):
            move_to(site, next_edge_ms(site, windows[i % len(windows)]) + jitter)
        case ("length", i, jitter):
            seconds = windows[i % len(windows)].seconds or 86_400
            move_to(site, site.machine.time() + seconds * 1000 + jitter)
        case ("midnight", jitter):
            move_to(site, pure.next_day_ms(site.zone, site.machine.time()) + jitter)
        case ("zone", rule):
            site.set_zone(rule)
        case _:
            site.machine.play(move)


def play_burst(site, caller, n, weight):
    """The same request n times; what is said of waiting is tried out."""
    for _ in range(n):
        t_ms, before = site.machine.time(), {k: list(v) for k, v in site.rows.items()}
        v = site.reserve(caller, weight)
        if v.outcome == pure.ADMITTED:
            continue
        event("refused" if v.outcome == pure.REFUSED else "too long")
        assert site.rows == before  # F11
        site.must_not_fit(v, caller, weight, t_ms)
        if v.outcome == pure.REFUSED:
            tried = [x for x in site.limits
                     if not x.dry_run and (x.max == 0 or x.unit == pure.CONCURRENT)]
            if not tried and not site.zone_changed:
                site.wait_is_exact(v, caller, weight, t_ms)
        return


def play(site, happening, excess=0):
    match happening:
        case None:
            pass
        case ("burst", caller, n, weight):
            play_burst(site, caller, n, weight)
        case ("settle", i, percent):
            live = [a for a in site.admitted if a.live]
            if live:
                a = live[i % len(live)]
                share = percent * (2 if excess else 1)
                site.settle(a, [1, *(x * share // 100 for x in a.reserved[1:])])
        case _:
            play_move(site, happening)


def finish(site, order):
    """Everything is settled, in any order."""
    site.rows_are_exact()
    live = [a for a in site.admitted if a.live]
    for i, share in order:
        if live:
            a = live.pop(i % len(live))
            site.settle(a, [share % 2, *(x * share // 100 for x in a.reserved[1:])])
            site.rows_are_exact()


starts = st.builds(lambda night, hour, ms: night_ms(night) + hour * pure.HOUR_MS + ms,
                   st.sampled_from(NIGHTS), st.integers(-2, 26), st.sampled_from([-1, 0, 1, 499]))
orders = st.lists(st.tuples(which, st.integers(0, 100)), max_size=20)


@settings(max_examples=250)
@given(limit_list=st.lists(limits(), min_size=1, max_size=5), rule=st.sampled_from(ZONES),
       start_ms=starts, happenings=st.lists(rounds, min_size=3, max_size=15), order=orders)
def test_never_over_and_waits_are_exact(limit_list, rule, start_ms, happenings, order):
    site = Site(limit_list, rule, start_ms)
    for one in happenings:
        for happening in one:
            play(site, happening)
    site.no_interval_is_over()
    finish(site, order)
    site.no_interval_is_over()
    event(f"admitted {min(len(site.admitted), 20) // 5 * 5} or more")


@settings(max_examples=200)
@given(limit_list=st.lists(limits(), min_size=1, max_size=4), rule=st.sampled_from(ZONES),
       start_ms=starts, order=orders, happenings=st.lists(
           st.tuples(st.one_of(clock_events, moves), bursts, st.one_of(settles, clock_events)),
           min_size=3, max_size=15))
def test_F44_never_over_while_the_clock_steps(limit_list, rule, start_ms, happenings, order):
    site = Site(limit_list, rule, start_ms)
    for one in happenings:
        for happening in one:
            play(site, happening)
    site.no_interval_is_over()
    finish(site, order)


@settings(max_examples=200)
@given(limit_list=st.lists(limits(windows=["day", "month", "hour", "10s"]), min_size=1,
                           max_size=4),
       start_ms=starts, happenings=st.lists(
           st.tuples(st.tuples(st.just("zone"), st.sampled_from(ZONES)), moves, bursts),
           min_size=3, max_size=15))
def test_F43_never_over_while_the_zone_changes(limit_list, start_ms, happenings):
    site = Site(limit_list, "UTC0", start_ms)
    for one in happenings:
        for happening in one:
            play(site, happening)


@settings(max_examples=150)
@given(limit_list=st.lists(limits(), min_size=1, max_size=4), rule=st.sampled_from(ZONES),
       start_ms=starts, happenings=st.lists(rounds, min_size=3, max_size=15), order=orders)
def test_no_admission_takes_it_over_even_if_settles_exceed_what_was_reserved(
        limit_list, rule, start_ms, happenings, order):
    site = Site(limit_list, rule, start_ms)
    for one in happenings:
        for happening in one:
            play(site, happening, excess=1)
    finish(site, order)


@pytest.mark.parametrize("text", SLIDINGS)
@settings(max_examples=40)
@given(limit_max=st.integers(1, 6), start_ms=starts, eighths=st.lists(
    st.tuples(st.integers(0, 10), jitters, st.integers(1, 4)), min_size=1, max_size=30))
def test_no_interval_of_the_length_is_over_at_slot_edges(text, limit_max, start_ms, eighths):
    """Bursts that hug the edges of slots, where a window counted in slots would leak."""
    site = Site([make_limit(pure.ADDRESS, pure.CALLS, text, limit_max)], "UTC0", start_ms)
    part_ms = site.limits[0].window.seconds * 125
    for n, jitter, calls in eighths:
        t_ms = site.machine.time()
        move_to(site, max(t_ms, (t_ms // part_ms + n) * part_ms + jitter))
        play_burst(site, "a", calls, [1, 0, 0])
    site.no_interval_is_over()


@pytest.mark.parametrize("text", WINDOWS)
@settings(max_examples=25)
@given(limit_max=st.integers(1, 6), start_ms=starts, rule=st.sampled_from(ZONES),
       tries=st.lists(st.integers(1, 4), min_size=1, max_size=8), data=st.data())
def test_a_caller_that_waits_as_told_is_admitted(text, limit_max, start_ms, rule, tries, data):
    """In real time, behind a clock that was put back too: not a millisecond before."""
    site = Site([make_limit(pure.ADDRESS, pure.CALLS, text, limit_max)], rule, start_ms)
    site.machine.wall_ms -= data.draw(st.sampled_from([0, 5000, 7 * pure.HOUR_MS, start_ms]))
    for calls in tries:
        v = site.reserve("a", [1, 0, 0])
        while v.outcome == pure.ADMITTED and calls > 1:
            v, calls = site.reserve("a", [1, 0, 0]), calls - 1
        if v.outcome == pure.REFUSED:
            site.machine.tick(site.machine.wait_ms(v.until_ms) - 1)
            assert site.reserve("a", [1, 0, 0]).outcome == pure.REFUSED
            site.machine.tick(1)
            assert site.reserve("a", [1, 0, 0]).outcome == pure.ADMITTED


@settings(max_examples=150)
@given(text=st.sampled_from(WINDOWS), limit_max=st.integers(0, 8), start_ms=starts,
       rule=st.sampled_from(ZONES), passed=st.lists(
           st.tuples(st.integers(0, 9), st.integers(0, 3)), max_size=8))
def test_F5_the_number_shown_is_the_number_enforced(text, limit_max, start_ms, rule, passed):
    site = Site([make_limit(pure.ADDRESS, pure.CALLS, text, limit_max)], rule, start_ms)
    one = [1, 0, 0]
    for eighths, calls in passed:
        site.machine.tick((site.limits[0].window.seconds or 86_400) * 125 * eighths)
        for _ in range(calls):
            site.reserve("a", one)
    v = site.reserve("a", one)
    (shown,) = v.standings[:v.n_standings]
    assert bytes(shown.limit) == bytes(site.limits[0])
    if limit_max == 0:
        assert shown.remaining == 0 and shown.more_ms == v.until_ms
        return
    if v.outcome == pure.REFUSED:
        assert shown.remaining == 0 and shown.more_ms == v.until_ms
    left = shown.remaining

    # More comes at that instant and not before: what a refused and an admitted call leave.
    def left_at(u_ms):
        w, _ = site.ask("a", one, u_ms)
        return w.standings[0].remaining + (w.outcome == pure.ADMITTED)

    assert left_at(site.machine.time()) == left
    assert left_at(shown.more_ms - 1) == left < left_at(shown.more_ms)
    for n in range(left):
        assert site.reserve("a", one).outcome == pure.ADMITTED, n
    assert site.reserve("a", one).outcome == pure.REFUSED


@settings(max_examples=200)
@given(site_list=st.lists(limits(), max_size=4), own_list=st.lists(limits(), min_size=1, max_size=4),
       keys=st.lists(st.booleans(), min_size=4, max_size=4), rule=st.sampled_from(ZONES),
       start_ms=starts, passed=st.lists(st.tuples(moves, bursts), min_size=2, max_size=8))
def test_a_keys_own_limit_decides_instead_of_the_configured_one(
        site_list, own_list, keys, rule, start_ms, passed):
    """Never above the key's own max, whatever the configuration says of that counter; its other
    limits hold as before."""
    def counter(x):
        return x.unit, x.unit == pure.CONCURRENT or pure.window_code(x.window)

    for x, is_key in zip(site_list, keys):
        x.subject = pure.KEY if is_key else x.subject
    for x in own_list:
        x.subject = pure.KEY
    own = {counter(x) for x in own_list}
    left = [x for x in site_list if x.subject != pure.KEY or counter(x) not in own]
    held = pure.limits_with_own(site_list, own_list)
    assert [bytes(x) for x in held] == [bytes(x) for x in left + own_list]
    site = Site(held, rule, start_ms)  # which asserts that everything admitted fits `held`
    for one in passed:
        for happening in one:
            play(site, happening)


CHANGES = ["2024-03-10", "2024-03-31", "2024-10-27", "2024-11-03"]
eighths_of_a_day = st.lists(st.integers(0, 2 * pure.DAY_MS), min_size=2, max_size=20).map(sorted)


@settings(max_examples=300)
@given(text=st.sampled_from(CALENDAR), rule=st.sampled_from(ZONES), night=st.sampled_from(CHANGES),
       offsets=eighths_of_a_day, limit_max=st.integers(0, pure.AMOUNT_MAX - 1))
def test_F43_what_is_released_of_a_window_never_decreases(text, rule, night, offsets, limit_max):
    """Days of 23 and 25 hours, and dates that come twice."""
    w, z = pure.window(text), pure.zone(rule)
    begins, released = {}, {}
    for offset in offsets:
        t_ms = night_ms(night) - pure.DAY_MS + offset
        (slot,), begins_ms = pure.slots(w, z, t_ms), pure.begins_ms(w, z, t_ms)
        ends_ms = pure.frees_ms(w, z, t_ms, slot)
        assert begins_ms <= t_ms < ends_ms
        assert begins.setdefault(slot.number, begins_ms) == begins_ms
        assert pure.slots(w, z, begins_ms)[0].number == slot.number
        assert pure.slots(w, z, begins_ms - 1)[0].number < slot.number
        if text != "hour":
            date, first = (civil.libc_date(rule, x) for x in (t_ms, begins_ms))
            assert first == (date if text == "day" else date.replace(day=1))
            assert civil.libc_date(rule, begins_ms - 1) < first
        now = pure.paced(limit_max, begins_ms, ends_ms, t_ms)
        assert released.get(slot.number, 0) <= now <= limit_max
        released[slot.number] = now


@settings(max_examples=500)
@given(limit_max=st.one_of(st.integers(0, pure.AMOUNT_MAX), st.integers(0, 100)),
       begins_ms=st.integers(-(1 << 50), 1 << 50), part=st.fractions(0, 1),
       length_ms=st.one_of(st.sampled_from([x * pure.HOUR_MS for x in (1, 23, 24, 25, 744, 745)]),
                           st.integers(1, 745 * pure.HOUR_MS)))
def test_F2_a_paced_max_is_released_as_exact_numbers_say(limit_max, begins_ms, part, length_ms):
    passed_ms = int(part * length_ms)
    released = pure.paced(limit_max, begins_ms, begins_ms + length_ms, begins_ms + passed_ms)
    due_ms = min(length_ms, passed_ms + length_ms // 12) if passed_ms < length_ms else length_ms
    assert released == limit_max * due_ms // length_ms


@settings(max_examples=200)
@given(text=st.sampled_from(CALENDAR), rule=st.sampled_from(ZONES), start_ms=starts,
       limit_max=st.integers(1, 2000), share=st.fractions(0, 1), weight=st.integers(1, 100))
def test_the_wait_of_a_paced_refusal_is_exact(text, rule, start_ms, limit_max, share, weight):
    """Whatever is used so far: refused the millisecond before, admitted at it."""
    site = Site([make_limit(pure.EVERYONE, pure.TOKENS, text, limit_max, pace=True)], rule,
                start_ms)
    _, (row,) = site.ask("a", [1, 0, 0], start_ms)
    site.rows[row] = [0, int(share * limit_max), 0]
    v, _ = site.ask("a", [1, weight, 0], start_ms)
    if v.outcome == pure.REFUSED:
        event("refused")
        assert v.until_ms <= next_edge_at_ms(site.zone, site.limits[0].window, start_ms)
        site.wait_is_exact(v, "a", [1, weight, 0], start_ms)


@settings(max_examples=200)
@given(text=st.sampled_from(SLIDINGS), night=st.sampled_from(NIGHTS),
       before_ms=st.integers(1, 10**9), after_ms=st.integers(0, 10**9),
       calls=st.integers(1, 10))
def test_F49_a_window_across_midnight_still_counts(text, before_ms, night, after_ms, calls):
    midnight_ms = night_ms(night)
    length_ms = pure.window(text).seconds * 1000
    before_ms = 1 + before_ms % length_ms
    after_ms = after_ms % (length_ms - before_ms + 1)
    site = Site([make_limit(pure.ADDRESS, pure.CALLS, text, calls)], "UTC0",
                midnight_ms - before_ms)
    for _ in range(calls):
        assert site.reserve("a", [1, 0, 0]).outcome == pure.ADMITTED
    move_to(site, midnight_ms + after_ms)
    for _ in range(calls):
        assert site.reserve("a", [1, 0, 0]).outcome == pure.REFUSED
    assert site.reserve("b", [1, 0, 0]).outcome == pure.ADMITTED


@settings(max_examples=200)
@given(limit_max=st.integers(0, 1200), n=st.integers(1, 60), weight=st.integers(1, 120),
       text=st.sampled_from(WINDOWS), start_ms=starts)
def test_F2_F7_F9_exactly_as_many_as_fit(limit_max, n, weight, text, start_ms):
    site = Site([make_limit(pure.EVERYONE, pure.TOKENS, text, limit_max)], "UTC0", start_ms)
    admitted = 0
    for i in range(n):
        admitted += site.reserve(CALLERS[i % 2], [1, weight, 0]).outcome == pure.ADMITTED
    assert admitted == min(n, limit_max // weight)


@settings(max_examples=300)
@given(rule=st.sampled_from(ZONES), other=st.sampled_from(ZONES), start_ms=starts,
       text=st.sampled_from(["day", "month"]),
       near_ms=st.integers(-2 * pure.DAY_MS, 2 * pure.DAY_MS))
def test_F43_one_date_is_one_row_whatever_the_zone(rule, other, start_ms, text, near_ms):
    w = pure.window(text)
    for t_ms in (start_ms, start_ms + near_ms):
        (slot,) = pure.slots(w, pure.zone(rule), t_ms)
        date = civil.libc_date(rule, t_ms)
        # The same date elsewhere: by a clock there that shows what the one here shows.
        shift_s = civil.libc(rule, t_ms).tm_gmtoff - civil.libc(other, t_ms).tm_gmtoff
        there_ms = t_ms + shift_s * 1000
        assume(civil.libc_date(other, there_ms) == date)
        (same,) = pure.slots(w, pure.zone(other), there_ms)
        assert bytes(same) == bytes(slot)
        # The row outlives its date in every zone, and the key lives as long as the row.
        assert slot.end_ms > max(t_ms, there_ms)
        assert pure.oldest_period(w, pure.zone(other), slot.end_ms - 1) <= slot.period
        assert pure.oldest_period(w, pure.zone(other), slot.end_ms) > slot.period


@settings(max_examples=300)
@given(text=st.sampled_from(WINDOWS), rule=st.sampled_from(ZONES), start_ms=starts,
       later_ms=st.integers(0, 40 * pure.DAY_MS))
def test_keys_go_only_forward_and_not_before_their_slots(text, rule, start_ms, later_ms):
    w, z = pure.window(text), pure.zone(rule)
    first = pure.oldest_period(w, z, start_ms)
    assert first <= pure.oldest_period(w, z, start_ms + later_ms)
    for slot in pure.slots(w, z, start_ms):
        assert slot.period == pure.window_period(w, slot.number) >= first
        if start_ms + later_ms < slot.end_ms:
            assert slot.period >= pure.oldest_period(w, z, start_ms + later_ms)


@settings(max_examples=300)
@given(calls=st.lists(st.tuples(st.integers(0, 1 << 40), st.integers(0, 1 << 40)), min_size=1,
                      max_size=40), data=st.data())
def test_F15_settles_in_any_order_come_to_the_exact_sum(calls, data):
    row = [len(calls), sum(r for r, _ in calls), sum(r for r, _ in calls)]
    for reserved, real in data.draw(st.permutations(calls)):
        row = pure.settle(row, [1, reserved, reserved], [1, real, real])
    assert row == [len(calls)] + [sum(r for _, r in calls)] * 2


any_amount = st.one_of(st.integers(0, (1 << 64) - 1), st.integers(0, 100),
                       st.integers(pure.AMOUNT_MAX - 3, pure.AMOUNT_MAX + 3))
triples = st.lists(any_amount, min_size=3, max_size=3)


@settings(max_examples=500)
@given(value=triples, reserved=triples, real=triples)
def test_F15_F29_a_settle_never_goes_below_zero_and_never_wraps(value, reserved, real):
    expected = [min(max(v - a, 0) + b, pure.AMOUNT_MAX)
                for v, a, b in zip(value, reserved, real)]
    assert pure.settle(value, reserved, real) == expected


@settings(max_examples=500)
@given(text=st.sampled_from(WINDOWS), unit=st.sampled_from([pure.CALLS, pure.TOKENS, pure.COST]),
       used=st.lists(any_amount, min_size=9, max_size=9), limit_max=any_amount, weight=any_amount)
def test_hostile_amounts_are_decided_as_exact_numbers_would_be(text, unit, used, limit_max, weight):
    """Sums of up to nine amounts of 64 bits: admitted only if the true sum fits."""
    w, weights_ = pure.window(text), [1, 1, 1]
    weights_[unit] = 1 if unit == pure.CALLS else weight
    c = pure.Counter(subject=pure.ADDRESS, window=w, slots=9 if w.kind == pure.SLIDING else 1)
    for i, amount in enumerate(used):
        c.slot[i].frees_ms = 1000 - i
        c.slot[i].used.of[unit] = amount
    v = pure.decide([pure.Limit(b"", pure.ADDRESS, unit, w, limit_max)], [c], weights_, 1)
    total = sum(used[:c.slots]) + weights_[unit]
    fits = 0 < limit_max and total <= min(limit_max, pure.AMOUNT_MAX - 1)
    assert (v.outcome == pure.ADMITTED) == (fits or limit_max == pure.UNLIMITED)
    for s in v.standings[:v.n_standings]:
        assert s.remaining <= max(limit_max - sum(used[:c.slots]), 0)
