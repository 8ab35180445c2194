"""A paced limit through a day of the program's clock: what is released by when, what is told to whom
comes too early, and that nothing of it depends on the past but what was used."""
import datetime

import pytest

from harness import limit
from test_midnight import MIDNIGHT, clock  # noqa: F401: a fixture

HOUR = datetime.timedelta(hours=1)
ALL = 24  # calls of a day: one an hour, two of them ahead


def paced(per, **more):
    return {**limit(per, "calls", "day", ALL), "pace": "yes", **more}


def crowd(now):
    """How many get in at this instant, and what the next hears."""
    for n in range(ALL + 1):
        answer = now.server.chat("x")
        if answer.status != 200:
            return n, answer
    raise AssertionError("more than the max")


@pytest.mark.parametrize("per, code", [("everyone", "site_limit"), ("anonymous", "anonymous_limit")])
def test_a_day_of_crowds(clock, model, per, code):  # noqa: F811
    now = clock(MIDNIGHT, limits={"mine": paced(per)})
    so_far = 0
    for hour, released, wait in ((0, 2, 3600), (0.99, 2, 60), (1, 3, 3600), (2.5, 4, 1800), (12, 14, 3600),
                                 (21.99, 23, 60), (22, 24, 7200), (23.5, 24, 1800)):
        now.to(MIDNIGHT + hour * HOUR)
        admitted, refused = crowd(now)
        so_far += admitted
        assert so_far == released, hour
        assert (refused.status, refused.code) == (429, code)
        said = now.server.get("/status").json
        assert (said["available"], said["code"]) == (False, code)
        for told in (int(refused.header("Retry-After")), said["retry_after"]):
            assert wait - 60 <= told <= wait, hour
    now.to(MIDNIGHT + 24 * HOUR)
    assert crowd(now)[0] == 2, "a new day begins as the last one did"


def test_what_is_not_used_stays_for_later(clock, model):  # noqa: F811
    now = clock(MIDNIGHT + 12 * HOUR, limits={"mine": paced("everyone")})
    assert crowd(now)[0] == 14


def test_its_wait_is_true(clock, model):  # noqa: F811
    """Refused until a minute before the time told, which is rounded up to it, and admitted then."""
    now = clock(MIDNIGHT + 3 * HOUR, limits={"mine": paced("everyone")})
    _, refused = crowd(now)
    wait = datetime.timedelta(seconds=int(refused.header("Retry-After")))
    now.to(MIDNIGHT + 3 * HOUR + wait - datetime.timedelta(seconds=62))
    assert now.statuses(1) == [429]
    now.to(MIDNIGHT + 3 * HOUR + wait)
    assert now.statuses(2) == [200, 429]


def test_a_paced_dry_run_refuses_nobody(clock, model):  # noqa: F811
    now = clock(MIDNIGHT, limits={"mine": paced("everyone", **{"dry-run": "yes"})})
    assert now.statuses(5) == [200] * 5
    assert now.place.day()["dry_run"] == {"mine": 3}


def test_a_day_that_is_not_paced_is_spent_by_its_first_crowd(clock, model):  # noqa: F811
    now = clock(MIDNIGHT, limits={"mine": paced("everyone", pace="no")})
    assert now.statuses(ALL + 1) == [200] * ALL + [429]
