"""Civil time: the C code agrees with libc, and with a model where libc is not exact."""
import datetime
import glob
import os

import civil
import pure
import pytest
from hypothesis import example, given, settings, strategies as st

# From tzdata's newest rules, one of each sort.
REAL = [
    "UTC0",
    "CET-1CEST,M3.5.0,M10.5.0/3",
    "EST5EDT,M3.2.0,M11.1.0",
    "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0",  # Lord Howe: half an hour
    "<-03>3",
    "IST-5:30",
    "<+0545>-5:45",
    "NZST-12NZDT,M9.5.0,M4.1.0/3",  # the south
    "<+1245>-12:45<+1345>,M9.5.0/2:45,M4.1.0/3:45",  # Chatham
    "<-02>2<-01>,M3.5.0/-1,M10.5.0/0",  # Nuuk: a negative time
    "<-01>1<+00>,M3.5.0/0,M10.5.0/1",  # Azores
    "IST-1GMT0,M10.5.0,M3.5.0/1",  # Dublin: winter is the exception
    "<+01>-1<+00>,M2.5.0/3,M4.1.0/2",  # Casablanca's sort, as if Ramadan had a date
    "EET-2EEST,M3.5.0/0,M10.5.0/0",  # Beirut: midnight comes twice
    "EET-2EEST,M4.5.5/0,M10.5.4/24",  # Cairo
    "CST5CDT,M3.2.0/0,M11.1.0/1",  # Havana: midnight is left out
    "<-04>4<-03>,M9.1.6/24,M4.1.6/24",  # Santiago
    "IST-2IDT,M3.4.4/26,M10.5.0",  # Jerusalem: 26 o'clock
    "EET-2EEST,M3.4.4/50,M10.4.4/50",  # Gaza: 50 o'clock
    "<+14>-14",
    "<-12>12",
    "AAA3BBB,J60/0,J300/0",
    "AAA-3BBB,59/0,300/0",
    "AAA-3BBB-3:30,J100/12:34:56,240/-5:06:07",
    "NST3:30NDT,M3.2.0/0:01,M11.1.0/0:01",  # a date comes again after midnight
]

# glibc knows a rule's changes from 1971 on; what was before it is left to the model.
FIRST_YEAR, LAST_YEAR = 1971, 2150


def new_year_ms(year):
    return civil.days(datetime.date(year, 1, 1)) * pure.DAY_MS


instants = st.integers(new_year_ms(FIRST_YEAR) + pure.DAY_MS, new_year_ms(LAST_YEAR))
years = st.integers(FIRST_YEAR + 1, LAST_YEAR - 1)


def agrees_with_libc(rule, z, t_ms):
    there = civil.libc(rule, t_ms)
    assert pure.offset_s(z, t_ms) == there.tm_gmtoff
    date = datetime.date(there.tm_year, there.tm_mon, there.tm_mday)
    assert pure.day(z, t_ms) == civil.days(date)
    assert pure.month(z, t_ms) == (there.tm_year - 1970) * 12 + there.tm_mon - 1


@pytest.mark.parametrize("rule", REAL)
@settings(max_examples=150)
@given(t_ms=instants)
def test_real_rules_agree_with_libc(rule, t_ms):
    agrees_with_libc(rule, pure.zone(rule), t_ms)


@pytest.mark.parametrize("rule", REAL)
def test_F43_real_rules_agree_with_libc_around_every_change(rule):
    z = pure.zone(rule)
    for instant in civil.Model(rule, 1972, 2100).instants:
        for off_ms in (-3_600_000, -1000, -1, 0, 1, 999, 1000, 3_600_000):
            agrees_with_libc(rule, z, instant * 1000 + off_ms)


# Any rule that the grammar allows.

small_times = st.integers(-23 * 3600, 23 * 3600)
large_times = st.integers(-(168 * 3600 - 1), 168 * 3600 - 1)


def clock_text(seconds):
    sign, n = "-" if seconds < 0 else "", abs(seconds)
    return f"{sign}{n // 3600}:{n // 60 % 60:02}:{n % 60:02}"


def dates(first, last):
    """Dates of a rule that lie between two days of the year, roughly."""
    months = st.integers(first // 31 + 1, last // 31 + 1)
    return st.one_of(
        st.builds("M{}.{}.{}".format, months, st.integers(1, 5), st.integers(0, 6)),
        st.builds("J{}".format, st.integers(first + 1, min(last + 1, 365))),
        st.builds("{}".format, st.integers(first, last)))


def rules(starts, ends, at):
    offset = st.integers(-15 * 3600, 12 * 3600).map(clock_text)
    return st.builds("AAA{}BBB{},{}/{},{}/{}".format, offset, offset, starts, at.map(clock_text),
                     ends, at.map(clock_text))


any_rules = rules(dates(0, 365), dates(0, 365), large_times)
# glibc looks at the changes of one year only, so they must lie in it, each year in one order.
spring, autumn = dates(31, 150), dates(190, 330)
plain_rules = st.one_of(rules(spring, autumn, small_times), rules(autumn, spring, small_times))


@settings(max_examples=800)
@given(rule=plain_rules, t_ms=instants, data=st.data())
def test_any_rule_agrees_with_libc(rule, t_ms, data):
    z = pure.zone(rule)
    assert z is not None
    agrees_with_libc(rule, z, t_ms)
    year = data.draw(years)
    for instant in civil.Model(rule, year, year).instants:
        agrees_with_libc(rule, z, instant * 1000)
        agrees_with_libc(rule, z, instant * 1000 - 1)


def is_first_later(model, t_ms, then_ms, name):
    """No instant after t_ms and before then_ms has a later name; then_ms has."""
    assert then_ms > t_ms
    assert name(then_ms) > name(t_ms)
    between = [c * 1000 for c in model.instants if t_ms < c * 1000 < then_ms]
    for u_ms in [then_ms - 1, *between, *(b - 1 for b in between)]:
        assert u_ms < t_ms or name(u_ms) <= name(t_ms)


@settings(max_examples=800)
@given(rule=any_rules, year=st.integers(1910, 2390), data=st.data())
@example(rule="EST5EDT4,0/0,J365/25", year=2024, data=None)
@example(rule="AAA0BBB-1,J364/167,J365/167", year=2024, data=None)
def test_any_rule_agrees_with_a_model_that_sees_all_years(rule, year, data):
    model, z = civil.Model(rule, year - 4, year + 4), pure.zone(rule)
    new_year = new_year_ms(year)
    near = [c * 1000 for c in model.instants if abs(c * 1000 - new_year) < 400 * pure.DAY_MS]
    some = data.draw(st.integers(-400 * pure.DAY_MS, 400 * pure.DAY_MS)) if data else 0
    for base in [new_year, new_year + some, *near]:
        for t_ms in (base - 1, base):
            assert pure.offset_s(z, t_ms) == model.offset_s(t_ms)
            assert pure.day(z, t_ms) == model.day(t_ms)
            is_first_later(model, t_ms, pure.next_day_ms(z, t_ms), model.day)


@pytest.mark.parametrize("rule", REAL)
@settings(max_examples=60)
@given(t_ms=instants, data=st.data())
def test_F43_the_next_day_and_month_begin_at_their_first_instant(rule, t_ms, data):
    z = pure.zone(rule)
    year = min(max(civil.libc(rule, t_ms).tm_year, FIRST_YEAR + 2), LAST_YEAR - 2)
    model = civil.Model(rule, year - 1, year + 1)

    def date(u_ms):
        return civil.libc_date(rule, u_ms)

    def month(u_ms):
        return date(u_ms).replace(day=1)

    near = [c * 1000 + data.draw(st.integers(-pure.DAY_MS, pure.DAY_MS)) for c in model.instants]
    for u_ms in [t_ms, *near]:
        is_first_later(model, u_ms, pure.next_day_ms(z, u_ms), date)
        is_first_later(model, u_ms, pure.next_month_ms(z, u_ms), month)


texts = st.one_of(st.text(st.characters(min_codepoint=1, max_codepoint=126), max_size=70),
                  st.text("ABCM<>+-0123456789:,./J", max_size=70),
                  any_rules.flatmap(
                      lambda r: st.integers(0, len(r)).flatmap(
                          lambda i: st.sampled_from([r[:i], r[:i] + r[i + 1:],
                                                     r[:i] + "0" + r[i:],
                                                     r[:i] + "," + r[i:]]))))


@settings(max_examples=1000)
@given(text=texts)
def test_whatever_parses_keeps_its_bounds(text):
    z = pure.zone(text)
    if z is None:
        return
    assert len(text) < 64
    for s in (z.standard_s, z.summer_s):
        assert -12 * 3600 <= s <= 15 * 3600
    for t_ms in (0, 1_700_000_000_000):
        assert t_ms < pure.next_day_ms(z, t_ms) <= t_ms + 4 * pure.DAY_MS


def test_the_rules_of_this_machines_zone_files():
    """Where a file's rule parses, it says what libc says of the file years from now."""
    ahead = [civil.days(datetime.date(2090, m, 15)) * pure.DAY_MS for m in range(1, 13)]
    seen = 0
    for path in glob.glob("/usr/share/zoneinfo/[A-Z]*/*"):
        if not os.path.isfile(path):
            continue
        with open(path, "rb") as file:
            rule = pure.rule_of_tzfile(file.read())
        if rule is None:
            continue
        seen += 1
        for t_ms in ahead:
            assert pure.offset_s(pure.zone(rule), t_ms) == civil.libc(":" + path, t_ms).tm_gmtoff
    assert seen > 100 or not glob.glob("/usr/share/zoneinfo/Europe/*")


@settings(max_examples=300)
@given(content=st.binary(max_size=300), tail=st.binary(max_size=80))
def test_any_bytes_as_a_zone_file(content, tail):
    for file in (content, b"TZif2" + content + b"\n" + tail + b"\n"):
        rule = pure.rule_of_tzfile(file)
        assert rule is None or pure.zone(rule) is not None
