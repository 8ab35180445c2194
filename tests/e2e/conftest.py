"""Fixtures of the end-to-end tests; what they are made of stands in harness.py."""
import os
import sys
import time

import pytest

sys.path.insert(0, os.path.dirname(__file__))

import servers  # noqa: E402,F401: all web servers, beside lighttpd in its three modes
from harness import MODES, Model, Site, until  # noqa: E402
from upstream import Upstream  # noqa: E402


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes more than a few seconds")


# Nearly all tests take less than 40 s, and in the day's last 60 s a refusal by its limit is a short one,
# of which the headers tell otherwise.
MIDNIGHT_S = 100
DAY_S = 86400


@pytest.fixture(autouse=True)
def within_a_day():
    """Few tests mean to run across the real midnight, at which all days' counters begin anew."""
    until(lambda: time.time() % DAY_S < DAY_S - MIDNIGHT_S, MIDNIGHT_S + 5, "a new day")


@pytest.fixture(scope="session")
def practice():
    model = Model()
    yield model
    model.stop()


@pytest.fixture
def model(practice):
    """The practice model with its default settings and all figures at zero."""
    practice.reset()
    return practice


@pytest.fixture
def site(model):
    """A function that makes a site with an initialised store: see harness.Site."""
    made = []

    def make(init=True, **options):
        made.append(Site(model, **options))
        return made[-1].init() if init else made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def upstream():
    """A function that starts an upstream.Upstream."""
    made = []

    def start(*scripts, **options):
        made.append(Upstream(*scripts, **options))
        return made[-1]

    yield start
    for one in made:
        one.close()


@pytest.fixture
def gate(site):
    """A function that makes a site and starts it: see harness.Server."""

    def start(mode="spawned", procs=1, prefix=(), **options):
        return site(**options).start(mode, procs=procs, prefix=prefix)

    return start


@pytest.fixture(params=MODES)
def mode(request):
    return request.param
