"""Settings of all property tests: random examples, and one that fails prints how to repeat it."""
from hypothesis import HealthCheck, settings

settings.register_profile("pennygate", database=None, deadline=None, print_blob=True,
                          suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("pennygate")
