"""What people see, by HTTP: the chat page and the widget in any state of the site, and the owner's
pages for whoever may see them and nobody else. What the pages show has tests of its own."""
import base64
import re

import pytest

from examples import account
from harness import ROOT, Call, limit, until

PASSWORD = re.compile(r"[a-z2-7]{26}")
FIXED = {"/": "text/html; charset=utf-8", "/widget.js": "text/javascript; charset=utf-8",
         "/dashboard.css": "text/css; charset=utf-8"}
GUARDED = {"/dashboard": "text/html; charset=utf-8", "/dashboard.json": "application/json",
           "/metrics": "application/openmetrics-text; version=1.0.0; charset=utf-8"}


def get(server, path, *headers, **options):
    return server.open("GET", path, b"", headers, **options).answer()


def basic(password, name="any"):
    return "Authorization", "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


def new_password(site, before=False):
    """before: whether there was one, which is told then."""
    done = site.run("dashboard-password", check=False)
    assert done.returncode == 0, done.stderr
    assert "only time" in done.stderr and ("before" in done.stderr) == before
    word = done.stdout.strip()
    assert PASSWORD.fullmatch(word) and word not in done.stderr
    return word


def counted(server, code):
    return server.site.stats()["live"]["codes"][code]


# ---- files ---------------------------------------------------------------------------------


def test_the_page_runs_nothing_but_the_widget(gate, mode):
    answer = get(gate(mode), "/")
    assert (answer.status, answer.header("Content-Type")) == (200, FIXED["/"])
    text = answer.body.decode()
    assert '<meta name="viewport" content="width=device-width' in text and "data-pennygate" in text
    assert re.findall(r"<script[^>]*>([^<]*)</script>", text) == [""]
    assert not re.search(r"<style|\sstyle=|\son\w+=|https?:|<!--", text)
    assert [line for line in text.splitlines() if line != line.lstrip() or not line] == []
    policy = answer.header("Content-Security-Policy").split("; ")
    assert policy == ["default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'",
                      "img-src 'self'", "base-uri 'none'", "form-action 'self'", "frame-ancestors 'self'"]
    assert answer.header("X-Content-Type-Options") == "nosniff"
    assert answer.header("Referrer-Policy") == "same-origin"


def test_files_are_kept_and_asked_for_again_by_their_tag(gate, mode):
    server = gate(mode)
    tags = set()
    for path, kind in FIXED.items():
        answer = get(server, path)
        assert (answer.status, answer.header("Content-Type")) == (200, kind)
        assert answer.header("Cache-Control") == "public, max-age=600"
        assert int(answer.header("Content-Length") or len(answer.body)) == len(answer.body) > 0
        tag = answer.header("ETag")
        tags.add(tag)
        again = get(server, path, ("If-None-Match", f'"1", {tag}'))
        assert (again.status, again.body, again.header("ETag")) == (304, b"", tag)
        assert get(server, path, ("If-None-Match", '"1-2"')).status == 200
        head = server.open("HEAD", path)
        assert head.head() == 200
        head.close()
        assert server.open("POST", path, b"x").answer().code == "method_not_allowed"
    assert len(tags) == len(FIXED)


def test_a_page_of_another_site_may_load_the_widget(gate):
    server = gate()
    answer = get(server, "/widget.js")
    assert answer.header("Cross-Origin-Resource-Policy") == "cross-origin"
    assert answer.header("Access-Control-Allow-Origin") is None
    assert len(answer.body) < 12 * 1024


def test_the_mount_leads_to_the_page(gate, mode):
    server = gate(mode)
    for path in ("", "?a=b"):
        answer = get(server, path)
        assert (answer.status, answer.header("Location"), answer.body) == (308, "ai/", b"")
    assert server.open("POST", "", b"x").answer().code == "not_found"


def test_without_its_page_a_site_has_the_widget_alone(gate, mode):
    server = gate(mode, options={"page": "no"})
    for path in ("", "/"):
        for method in ("GET", "POST"):
            assert server.open(method, path).answer().code == "not_found"
    assert get(server, "/widget.js").status == 200


def test_they_are_there_in_any_state_and_spend_nothing(gate, model, mode):
    server = gate(mode, limits={"site-day": limit("everyone", "calls", "day", 1)})
    place = server.site

    def all_there():
        return all(get(server, path).status == 200 for path in FIXED)

    assert server.chat().status == 200
    place.settled()
    before = place.data()
    assert all_there() and server.chat().code == "site_limit"
    assert place.data() == before
    place.run("pause")
    assert all_there() and server.chat().code == "paused"
    away = place.store.with_name("away")
    place.store.rename(away)
    until(lambda: server.chat().code == "meter_unavailable", 10, "the store's absence")
    assert all_there()
    away.rename(place.store)
    place.write(place.text() + "nonsense")
    assert server.chat().code == "configuration"
    if mode != "cgi":  # which does not know then where it is mounted
        assert all_there()
    assert model.count == 1


# ---- the owner's pages ---------------------------------------------------------------------


def test_without_a_password_they_are_closed(gate, mode):
    server = gate(mode)
    for path in GUARDED:
        for headers in ((), (basic("x"),), (basic(""),), (("Remote-User", "ann"),)):
            answer = get(server, path, *headers)
            assert (answer.status, answer.code) == (403, "dashboard_closed")
            assert "dashboard-password" in answer.error["message"]
            assert answer.header("WWW-Authenticate") is None
    until(lambda: counted(server, "dashboard_closed") == 4 * len(GUARDED), 10, "the figure of closed pages")


def test_the_password_opens_them(gate, mode):
    server = gate(mode)
    word = new_password(server.site)
    for path, kind in GUARDED.items():
        answer = get(server, path, basic(word))
        assert (answer.status, answer.header("Content-Type")) == (200, kind)
        assert answer.header("Cache-Control") == "no-store"
        assert answer.header("Referrer-Policy") == "no-referrer"
        assert len(answer.body) < 64 * 1024
        assert get(server, path, basic(word, name="")).status == 200
        head = server.open("HEAD", path, b"", [basic(word)])
        assert head.head() == 200
        head.close()
    policy = get(server, "/dashboard", basic(word)).header("Content-Security-Policy")
    assert policy.startswith("default-src 'none'; style-src 'self'; ") and "frame-ancestors 'none'" in policy
    assert "script-src" not in policy


@pytest.mark.parametrize("headers", [
    lambda word: (),
    lambda word: (basic(word + "x"),),
    lambda word: (basic(word.upper()),),
    lambda word: (basic(""),),
    lambda word: (("Authorization", "Bearer " + word),),
    lambda word: (("Authorization", word),),
    lambda word: (("Authorization", basic(word)[1].rstrip("=") + "!"),),
    lambda word: (("Authorization", "Basic " + "A" * 4000),),
    lambda word: (("X-Authorization", basic(word)[1]),),
    lambda word: (("Remote-User", "ann"), ("X-Remote-User", "ann")),
])
def test_nothing_else_does(gate, headers):
    server = gate()
    place = server.site
    place.sections["dashboard"] = {"accounts": ["ann"]}
    place.write()
    word = new_password(place)
    answers = [get(server, path, *headers(word)) for path in GUARDED]
    for answer in answers:
        assert (answer.status, answer.code) == (401, "unauthorized")
        assert answer.header("WWW-Authenticate") == 'Basic realm="pennygate", charset="UTF-8"'
        assert word.encode() not in answer.body
    shown = any(name == "Authorization" for name, _ in headers(word))
    expected = len(answers) if shown else 0
    until(lambda: counted(server, "unauthorized") == expected, 10, "the figure of wrong passwords")
    assert word not in server.log()


def test_two_headers_are_none(gate):
    server = gate()
    word = new_password(server.site)
    answer = get(server, "/dashboard", basic(word), basic(word))
    assert answer.status in (400, 401)


def test_wrong_passwords_write_nothing(gate, mode):
    server = gate(mode)
    new_password(server.site)
    assert server.chat().status == 200
    server.site.settled()
    before = server.site.data()
    for _ in range(20):
        assert get(server, "/dashboard", basic("guess")).status == 401
    assert server.site.data() == before


def test_a_new_password_ends_the_one_before(gate, mode):
    server = gate(mode)
    words = [new_password(server.site, before) for before in (False, True)]
    assert words[0] != words[1]
    assert [get(server, "/metrics", basic(word)).status for word in words] == [401, 200]
    assert "removed" in server.site.run("dashboard-password", "remove")
    assert get(server, "/metrics", basic(words[1])).code == "dashboard_closed"
    assert "no password" in server.site.run("dashboard-password", "remove")
    for path in server.site.directory.rglob("*"):
        if path.is_file():
            assert words[1].encode() not in path.read_bytes(), path


def test_a_listed_account_of_the_web_server_needs_none(site, mode):
    place = site(init=False)
    ann, eve = account(place, "ann"), account(place, "eve")
    place.sections["dashboard"] = {"accounts": ["Ann", "bob"]}
    place.write()
    server = place.init().start(mode)
    assert get(server, "/dashboard", ann).status == 200
    assert get(server, "/dashboard", eve).code == "dashboard_closed"
    assert get(server, "/dashboard").code == "dashboard_closed"


def told_to_browsers(answer):
    """What lets a page of another origin read it."""
    return [name for name, _ in answer.headers if name.lower().startswith("access-control-") or name.lower() == "vary"]


def test_pages_of_other_sites_get_nothing(gate, mode):
    """Not even if they may ask for the model: the browser would send the owner's password along."""
    friend = "https://friend.example"
    server = gate(mode, options={"allowed-origins": [friend], "cookie-cross-site": "yes"})
    word = new_password(server.site)
    own = "Origin", f"http://127.0.0.1:{server.port}"
    for path in [*GUARDED, *FIXED]:
        asked = [basic(word)] if path in GUARDED else []
        for origin in (friend, "https://elsewhere.example", "null", f"http://127.0.0.1:{server.port + 1}"):
            for headers in ([("Origin", origin)], [*asked, ("Origin", origin)]):
                answer = get(server, path, *headers)
                assert (answer.code, told_to_browsers(answer)) == ("forbidden_origin", []), (path, origin)
        for headers in ([], [own]):
            answer = get(server, path, *asked, *headers)
            assert (answer.status, told_to_browsers(answer)) == (200, []), path
        for method in ("OPTIONS", "POST"):
            preflight = [*asked, ("Origin", friend), ("Access-Control-Request-Method", "GET")]
            answer = server.open(method, path, b"", preflight).answer()
            assert (answer.code, told_to_browsers(answer)) == ("method_not_allowed", []), (method, path)
            assert answer.header("Allow") == "GET, HEAD"
    status = get(server, "/status", ("Origin", friend))
    assert status.header("Access-Control-Allow-Credentials") == "true"


def test_what_is_wrong_is_told_as_anywhere(gate, mode):
    server = gate(mode)
    place = server.site
    word = new_password(place)
    for path in GUARDED:
        assert server.open("POST", path, b"x", [basic(word)]).answer().code == "method_not_allowed"
        assert get(server, path + "/", basic(word)).code == "not_found"
    place.run("pause")
    assert get(server, "/dashboard", basic(word)).status == 200
    away = place.store.with_name("away")
    place.store.rename(away)
    until(lambda: get(server, "/dashboard", basic(word)).status == 503, 10, "the store's absence")
    for path in GUARDED:
        answer = get(server, path, basic(word))
        assert (answer.status, answer.code) == (503, "meter_unavailable")
        assert "pennygate check" in answer.error["message"] and bytes(place.store) not in answer.body
        assert answer.header("Retry-After")
    assert "pennygate" not in server.chat().error["message"]
    away.rename(place.store)
    until(lambda: get(server, "/dashboard", basic(word)).status == 200, 10, "the store's return")
    if mode != "cgi":
        place.write(place.text() + "nonsense")
        answer = get(server, "/dashboard", basic(word))
        assert answer.code == "configuration" and "pennygate check" in answer.error["message"]


@pytest.fixture
def visited(gate, model):
    """A site with callers of each kind, an alert and a dry run, and its password."""
    server = gate(limits={
        "account-day": limit("account", "calls", "day", 9), "mine": limit("visitor", "calls", "day", 9),
        "site-day": limit("everyone", "calls", "day", 5),
        "trial": {**limit("address", "calls", "day", 1), "dry-run": "yes"}},
        options={"trusted-proxies": ["127.0.0.1"]})
    token = server.site.run("keys", "add", "kay", "--limit", "calls/day=5").split()[-1]
    for headers in ([("X-Forwarded-For", "192.0.2.77")], [("X-Forwarded-For", "192.0.2.77")],
                    [("X-Forwarded-For", "2001:db8::77")], [("Authorization", f"Bearer {token}")]):
        assert server.chat("forty purple elephants", headers=headers).status == 200
    server.site.settled()
    until(lambda: server.site.stats()["alerts"], 10, "the alert of four fifths")
    return server, new_password(server.site), token


def test_callers_are_hashes_and_nothing_else(visited):
    """Nobody's address, name, key or words; and the name of today is that of the log."""
    server, word, token = visited
    for path in GUARDED:
        body = get(server, path, basic(word)).body.decode()
        for secret in ("192.0.2", "2001:db8", "127.0.0.", "kay", token, "practice-large", "sk-practice", "elephants",
                       word, str(server.site.directory)):
            assert secret not in body, (path, secret)
    callers = get(server, "/dashboard.json", basic(word)).json["top_callers"]
    assert {(one["per"], one["calls"]) for one in callers} >= {("address", 2), ("address", 1), ("key", 1)}
    names = {one["name"] for one in callers if one["per"] == "address"}
    logged = until(lambda: (found := re.findall("subject=([0-9a-f]{16})", server.log()))[3:] and found, 10, "the log")
    assert {logged[0], logged[2]} <= names
    page = get(server, "/dashboard", basic(word)).body.decode()
    assert all(f"<code>{one['name']}</code><td>{one['calls']}<td>" in page for one in callers)


def test_what_stands_in_lists_is_in_the_manual(visited):
    server, word, _ = visited
    manual = (ROOT / "gateway/pennygate-api.7").read_text(encoding="utf-8")
    manual = manual[manual.index(".Sh THE FIGURES"):manual.index(".Sh STATUS")]
    shown = get(server, "/dashboard.json", basic(word)).json
    for name in ("alerts", "top_callers", "days", "limits", "models"):
        for key in shown[name][-1]:
            assert re.search(rf"^\.(It )?Cm (.* , |.* )?{key}( |$)", manual, re.M), (name, key)


def test_a_question_is_no_request_for_the_model(gate, model):
    server = gate()
    word = new_password(server.site)
    for path in (*FIXED, *GUARDED):
        get(server, path, basic(word))
    for path in GUARDED:
        get(server, path)
    get(server, "/dashboard", basic("wrong"))
    for path in ("/wp-login.php", "/.env", "/dashboard/"):
        get(server, path)
    assert server.open("POST", "/status", b"x").answer().code == "method_not_allowed"
    until(lambda: [counted(server, code) for code in ("unauthorized", "not_found", "method_not_allowed")]
          == [1, 3, 1], 10, "the figures of what was answered")
    day = server.site.day()
    assert all(day[name] == 0 for name in ("admitted", "invalid", "denied", "busy", "paused", "meter_unavailable"))
    assert model.count == 0


def test_the_command_says_what_it_cannot_do(site):
    place = site(init=False)
    done = place.run("dashboard-password", check=False)
    assert done.returncode == 1 and "init" in done.stderr and done.stdout == ""
    assert "owner's pages" not in place.run("check", check=False).stdout
    place.init()
    done = place.run("dashboard-password", "please", check=False)
    assert done.returncode == 2 and "please" in done.stderr and done.stdout == ""
    def check():
        return re.sub(r"\s+", " ", place.run("check"))

    assert "owner's pages: no password is made (see pennygate dashboard-password), no account" in check()
    new_password(place)
    assert "owner's pages: a password is made, no account" in check()
    place.sections["dashboard"] = {"accounts": ["ann", "bob@example.org"]}
    place.write()
    assert "accounts = {ann, bob@example.org}" in check()
    assert "owner's pages: a password is made, and 2 accounts are listed: either opens" in check()
    place.run("dashboard-password", "remove")
    assert "owner's pages: no password is made (see pennygate dashboard-password), but 2 accounts" in check()


def test_the_page_is_found_where_the_whole_path_is_one(site):
    """Without a mount of the configuration, as the web server divides the path."""
    place = site(init=False)
    del place.site["mount"]
    place.write()
    server = place.init().start("spawned")
    assert Call(server.port, "GET", "/ai/").answer().status == 200
    assert Call(server.port, "GET", "/ai").answer().code == "not_found"
