"""Civil time without the C code: libc's, and a model of a rule that is right at any date."""
import bisect
import calendar
import datetime
import os
import re
import time

DAY_S = 86_400
EPOCH = datetime.date(1970, 1, 1)


def libc(rule, t_ms):
    """libc's localtime_r under TZ=rule."""
    if os.environ.get("TZ") != rule:
        os.environ["TZ"] = rule
        time.tzset()
    return time.localtime(t_ms // 1000)


def libc_date(rule, t_ms):
    t = libc(rule, t_ms)
    return datetime.date(t.tm_year, t.tm_mon, t.tm_mday)


def days(date):
    return (date - EPOCH).days


def _seconds(text):
    sign = -1 if text.startswith("-") else 1
    h, m, s = ([int(x) for x in text.lstrip("+-").split(":")] + [0, 0])[:3]
    return sign * (h * 3600 + m * 60 + s)


def _date(text, year):
    """Days since 1970 of a rule's date in a year."""
    first = datetime.date(year, 1, 1)
    if text[0] == "M":
        m, w, d = (int(x) for x in text[1:].split("."))
        dates = [datetime.date(year, m, i + 1) for i in range(calendar.monthrange(year, m)[1])]
        dates = [x for x in dates if x.isoweekday() % 7 == d]
        return days(dates[min(w, len(dates)) - 1])
    if text[0] == "J":  # by a year that has no 29 February
        common = datetime.date(2023, 1, 1) + datetime.timedelta(int(text[1:]) - 1)
        return days(common.replace(year=year))
    return days(first) + int(text)


class Model:
    """All changes of a rule from `first` to `last` year, in order."""

    def __init__(self, rule, first, last):
        name = r"(?:<[^>]+>|[A-Za-z]+)"
        m = re.fullmatch(rf"{name}([-+:\d]+)(?:{name}([-+:\d]*),([^,]+),([^,]+))?", rule)
        standard = -_seconds(m[1])
        summer = -_seconds(m[2]) if m[2] else standard + 3600
        self.changes, self.before = [], standard
        if m[3]:
            changes = []
            for year in range(first, last + 1):
                for end, text, old, new in ((0, m[3], standard, summer),
                                            (1, m[4], summer, standard)):
                    date, _, at = text.partition("/")
                    instant = _date(date, year) * DAY_S + _seconds(at or "2") - old
                    changes.append((instant, year, end, new))
            self.changes = sorted(changes)
        self.instants = [c[0] for c in self.changes]

    def offset_s(self, t_ms):
        i = bisect.bisect_right(self.instants, t_ms // 1000)
        return self.changes[i - 1][3] if i else self.before

    def day(self, t_ms):
        return (t_ms // 1000 + self.offset_s(t_ms)) // DAY_S
