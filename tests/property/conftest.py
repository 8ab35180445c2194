"""Settings of all property tests: random examples, and one that fails prints how to repeat it."""
import os
import time

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("pennygate", database=None, deadline=None, print_blob=True,
                          suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("pennygate")


@pytest.fixture(autouse=True, scope="session")
def process_zone():
    """The tests set TZ as they go; what it was comes back at the end."""
    before = os.environ.get("TZ")
    yield
    os.environ.pop("TZ", None)
    if before is not None:
        os.environ["TZ"] = before
    time.tzset()
