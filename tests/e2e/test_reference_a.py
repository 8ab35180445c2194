"""Reference system A: a counter per visitor and day and one for the site and day, request by
request, with limits 3 and 5. Refused requests are counted apart and raise no counter."""
import pytest

from harness import limit

ALICE, BOB, CAROL = "127.0.0.11", "127.0.0.12", "127.0.0.13"

# who asks, what is answered, the site's counter afterwards
TRACE = [
    (ALICE, None, 1), (ALICE, None, 2), (ALICE, None, 3),
    (ALICE, "address_limit", 3), (ALICE, "address_limit", 3),
    (BOB, None, 4), (BOB, None, 5),
    (BOB, "site_limit", 5),
    (CAROL, "site_limit", 5),
]


@pytest.mark.parametrize("stream", [False, True])
def test_the_trace_of_reference_system_a(site, model, mode, stream):
    place = site(limits={
        "visitor-day": limit("address", "calls", "day", 3),
        "site-day": limit("everyone", "calls", "day", 5),
    })
    server = place.start(mode)
    for who, refused, count in TRACE:
        answer = server.chat(source=who, stream=stream)
        if refused:
            assert (answer.status, answer.code) == (429, refused)
            assert 0 < int(answer.header("Retry-After")) <= 86400
        else:
            assert answer.status == 200
        assert place.used("site-day") == count
        assert model.count == count
    day = place.day()
    assert day["admitted"] == 5
    assert day["refused"]["address"] == 2
    assert day["refused"]["site"] == 2
