"""The owner's own tests: a secret skips the limits and nothing else."""
import pytest

from harness import limit

SECRET = "correct-horse-battery-staple-0123456789"
NONE = {"visitor-day": limit("address", "calls", "day", 0),
        "site-day": limit("everyone", "calls", "day", 0)}
HEADER = [("X-Pennygate-Bypass", SECRET)]
BEARER = [("Authorization", f"Bearer {SECRET}")]


@pytest.fixture
def owned(site):
    """A site where nobody is admitted but the owner."""

    def make(mode="spawned", bypass=None, limits=None, **options):
        place = site(init=False, limits={**NONE, **(limits or {})}, **options)
        secret = place.directory / "bypass"
        secret.write_text(SECRET + "\n", encoding="ascii")
        secret.chmod(0o600)
        place.own(secret)
        place.sections["bypass"] = {"secret-file": secret, **(bypass or {})}
        place.write()
        return place.init().start(mode)

    return make


def test_the_secret_skips_the_limits(owned, model, mode):
    server = owned(mode)
    assert server.chat().status == 429
    for headers in (HEADER, BEARER):  # uhttpd passes no header of one's own
        answer = server.chat(headers=headers)
        assert answer.status == 200
        assert "ratelimit" not in str(answer.headers).lower(), "its limit is nobody's to see"
    assert server.chat(stream=True, headers=HEADER).events()[-1] == "[DONE]"
    assert server.chat().status == 429
    assert model.count == 3


def test_it_is_counted_apart(owned, model):
    server = owned(limits={"site-day": limit("everyone", "calls", "day", 1)}, bypass={"max": 3})
    assert [server.chat(headers=HEADER).status for _ in range(3)] == [200] * 3
    assert server.site.used("site-day") == 0
    day = server.site.settled()
    assert (day["admitted"], day["bypassed"]) == (3, 3)


def test_it_is_bounded_by_a_limit_of_its_own(owned, model):
    server = owned(bypass={"max": 2})
    answers = [server.chat(headers=HEADER) for _ in range(3)]
    assert [answer.status for answer in answers] == [200, 200, 429]
    assert answers[2].code == "bypass_limit"
    assert int(answers[2].header("Retry-After")) % 60 == 0
    assert server.chat().code == "address_limit", "nobody else is told of it"
    assert model.count == 2


def test_it_never_skips_the_bounds_of_a_request(owned, model):
    server = owned(request={"max-message-chars": 10, "max-input-chars": 20, "max-history": 2})
    assert server.chat("x" * 11, headers=HEADER).code == "too_long"
    assert server.chat(headers=[*HEADER, ("Origin", "https://evil.example")]).code == "forbidden_origin"
    assert server.open("POST", "/v1/chat/completions", b"{}", HEADER).answer().status == 415
    assert model.stats()["started"] == 0


def test_a_paused_site_is_paused_for_its_owner_too(owned, model):
    server = owned()
    server.site.run("pause")
    assert server.chat(headers=HEADER).code == "paused"
    server.site.run("resume")
    assert server.chat(headers=HEADER).status == 200
    assert model.count == 1


@pytest.mark.parametrize("headers", [
    [("X-Pennygate-Bypass", SECRET[:-1])], [("X-Pennygate-Bypass", SECRET + "x")],
    [("X-Pennygate-Bypass", "")], [("X-Pennygate-Bypass", "x" * 5000)],
    [("X-Pennygate-Bypass", SECRET)] * 2, [("Authorization", SECRET)],
    [("Authorization", f"Basic {SECRET}")], [("Authorization", "Bearer sk-1")]])
def test_a_wrong_secret_is_none_and_nobody_is_told(owned, model, headers):
    server = owned()
    with_it, without = server.chat(headers=headers), server.chat()
    for answer in (with_it, without):
        assert (answer.status, answer.code) == (429, "address_limit")
    varying = ("x-request-id", "date", "retry-after", "ratelimit", "x-ratelimit-reset")
    kept = [[pair for pair in answer.headers if pair[0] not in varying] for answer in (with_it, without)]
    assert kept[0] == kept[1] and with_it.body == without.body
    assert model.count == 0


def test_the_owner_needs_no_key(owned, model):
    server = owned(options={"require": "key"})
    assert server.chat().status == 401
    assert server.chat(headers=HEADER).status == 200


def test_the_secret_shows_nowhere(owned, model):
    server = owned()
    answer = server.chat(headers=[*HEADER, ("X-Other", "1")])
    server.stop()  # so that every line is in the log
    for text in (str(answer.headers), answer.body.decode(), str(model.stats()["last"]), server.log()):
        assert SECRET not in text
    assert SECRET.encode() not in server.site.data_file.read_bytes()


def test_another_header_can_be_chosen(owned, model):
    server = owned(bypass={"header": "X-My-Tests"})
    assert server.chat(headers=[("X-My-Tests", SECRET)]).status == 200
    assert server.chat(headers=HEADER).status == 429


def test_the_status_is_the_owners(owned):
    server = owned(bypass={"max": 1})
    assert server.get("/status").json["available"] is False
    mine = server.open("GET", "/status", b"", HEADER).answer().json
    assert mine["available"] is True and mine["limits"] == []
    assert server.chat(headers=HEADER).status == 200
    mine = server.open("GET", "/status", b"", HEADER).answer().json
    assert (mine["available"], mine["code"]) == (False, "bypass_limit")


@pytest.mark.parametrize("method, path, status", [
    ("POST", "/v1/embeddings", 404), ("POST", "/v1/chat/completions/", 404),
    ("POST", "/v1/chat%2fcompletions%2f", 404), ("PUT", "/v1/chat/completions", 405), ("POST", "/status", 405)])
def test_f10_the_secret_opens_no_side_route(owned, model, method, path, status):
    server = owned()
    for headers in (HEADER, BEARER):
        answer = server.open(method, path, b"{}", [("Content-Type", "application/json"), *headers]).answer()
        assert answer.status == status
    assert model.stats()["started"] == 0
    assert server.site.used("bypass") == 0


def test_whoever_shows_it_is_nobody_else(owned, model):
    """It takes nothing of the address, the cookie or the key beside it, and no cookie comes of it."""
    server = owned(limits={
        "visitor-day": limit("address", "calls", "day", 1), "site-day": limit("everyone", "calls", "day", 9),
        "each": limit("visitor", "calls", "day", 1), "all": limit("anonymous", "calls", "day", 1)})
    answers = [server.chat(headers=HEADER) for _ in range(3)]
    assert [answer.status for answer in answers] == [200] * 3
    assert all(answer.header("Set-Cookie") is None for answer in answers)
    assert [server.site.used(name) for name in ("bypass", "all", "site-day")] == [3, 0, 0]
    assert [server.chat().status for _ in range(2)] == [200, 429]
