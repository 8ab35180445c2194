"""The manual says what the program does: every option, field, code, command and file that the
sources have is in its page, with the same default, and the shipped examples are accepted."""
import base64
import hashlib
import json
import re
import subprocess

import pytest

from harness import Call, ROOT, limit
from servers import Lighttpd


def page(name):
    """A manual page as plain text with single blanks."""
    text = subprocess.run(["mandoc", "-T", "utf8", f"gateway/{name}"], cwd=ROOT, capture_output=True,
                          text=True, check=True).stdout
    return re.sub(r"\s+", " ", re.sub(".\b", "", text))


def source(path):
    return (ROOT / path).read_text(encoding="utf-8")


def rows(pattern, path):
    found = re.findall(pattern, source(path))
    assert len(found) > 8, f"{path} no longer looks as this test thinks"
    return found


def test_every_code_is_in_the_api_page_with_its_status():
    text = page("pennygate-api.7")
    statuses = {"BAD_REQUEST": "400", "TOO_MANY": "429", "UNAVAILABLE": "503", "BAD_GATEWAY": "502",
                "GATEWAY_TIMEOUT": "504"}
    for name, status in rows(r'\{\s*\d+,\s*"([a-z_]+)",\s*(\w+)', "gateway/code.c"):
        assert f" {name} {statuses.get(status, status)} " in text, name


def test_every_field_is_in_the_api_page_with_its_treatment():
    text = page("pennygate-api.7")
    for name, treatment in rows(r'\{"(\w+)", (USED|IGNORED|REFUSED),', "gateway/request.c"):
        assert f" {name} {treatment.lower()} " in text, name


def test_every_route_is_in_the_api_page():
    text = page("pennygate-api.7")
    paths = re.findall(r'\{"(/[a-z0-9/.-]*)",', source("gateway/route.c"))
    assert {"/v1/chat/completions", "/status", "/", "/dashboard.json"} <= set(paths)
    for path in paths:
        assert f" {path} " in text or f" {path}," in text, path


def test_every_option_is_in_the_configuration_page_with_its_default():
    text = page("pennygate.conf.5")
    for name, default in rows(r'\{SECTION_\w+,\s*OPTION_\w+,\s*"([a-z-]+)",\s*(NULL|"[^"]*"|\w+),',
                              "gateway/config_options.c"):
        assert f" {name} " in text, name
        if default.startswith('"'):
            assert default.strip('"') in text, f"{name}: the default {default}"


def test_every_command_and_flag_is_in_the_page_of_commands():
    text = page("pennygate.8")
    for name in rows(r'\{"([a-z-]+)", (?:FLAG|0)', "gateway/cli.c"):
        assert re.search(rf"\b{name}\b", text), name
    for name in re.findall(r'\{"(--?[a-z]+)", ', source("gateway/cli.c")):
        assert name in text, name


@pytest.mark.parametrize("name", ["pennygate.conf", "daily-counter.conf", "anthropic.conf"])
def test_the_examples_are_accepted(site, name):
    """With the paths of this test in place of those of a real host."""
    place = site()
    text = source(f"platform/examples/{name}")
    for shown, real in (("/var/lib/pennygate", place.store), ("/etc/pennygate/secret", place.secret),
                        ("/etc/pennygate/key", place.key)):
        assert shown in text
        text = text.replace(shown, str(real))
    place.write(text)
    assert "0 faults" in place.run("check")


@pytest.mark.parametrize("name", ["spawned", "external", "cgi", "members", "dashboard"])
def test_the_lighttpd_configurations_are_accepted(tmp_path, name):
    text = f'server.port = 1\nserver.document-root = "/"\ninclude "{ROOT}/platform/lighttpd/{name}.conf"\n'
    path = tmp_path / "lighttpd.conf"
    path.write_text(text, encoding="utf-8")
    done = subprocess.run(["lighttpd", "-tt", "-f", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "unknown" not in done.stderr, done.stderr


def test_the_lighttpd_configurations_mount_their_path_alone(site, model, mode):
    model.set(gap_ms=20)
    server = site().start(f"lighttpd-{mode}")
    server.page("air.html", "mine")
    page = Call(server.port, "GET", "/air.html").answer()
    assert (page.status, page.body) == (200, b"mine")
    assert server.get("").header("Location") == server.get("?v1").header("Location") == "ai/"
    assert b"widget.js" in server.get("/").body
    assert b'"not_found"' in server.get("/v1").body
    assert server.get("/v1/models").status == 200
    answer = server.chat(stream=True)
    assert answer.events()[-1] == "[DONE]"
    assert len(answer.pieces) > 5, "streamed, not at its end"


class Members(Lighttpd):
    """Beside it the way for members, with this test's paths and password."""

    def configuration(self, stream):
        common, modules, rest = super().configuration(stream).partition('server.modules += ("mod_setenv"')
        word = base64.b64encode(hashlib.sha1(b"of-ann").digest()).decode()
        (self.directory / "members").write_text(f"ann:{{SHA}}{word}\n", encoding="ascii")
        self.site.own(self.directory / "members")
        text = source("platform/lighttpd/members.conf")
        for shown, real in (
                ("/usr/local/sbin/pennygate", self.site.program), ("/etc/lighttpd/members", self.directory / "members"),
                ("/run/lighttpd/pennygate-members.sock", self.directory / "members.sock"),
                ('( "PATH" ),', f'( "PATH" ), "bin-environment" => ( "PENNYGATE_CONFIG" => "{self.site.config}" ),')):
            assert shown in text
            text = text.replace(shown, str(real))
        return f"{common}{text}\n{modules}{rest}"


def test_members_and_guests_come_by_two_ways(site):
    place = site(init=False, limits={"account-day": limit("account", "calls", "day", 2),
                                     "guests": limit("anonymous", "calls", "day", 1)})
    del place.site["mount"]
    place.write()
    place.init()
    server = Members(place, "lighttpd-spawned")
    assert [server.chat().status for _ in range(2)] == [200, 429]

    def member(*headers):
        body = json.dumps({"messages": [{"role": "user", "content": "hello"}]}).encode()
        return Call(server.port, "POST", "/members/v1/chat/completions", body,
                    [("Content-Type", "application/json"), *headers]).answer()

    assert member().status == member(("Authorization", "Bearer pg_x")).status == 401
    ann = "Authorization", "Basic " + base64.b64encode(b"ann:of-ann").decode()
    assert [member(ann).status for _ in range(3)] == [200, 200, 429]
    assert member(ann).code == "account_limit"


def test_the_unit_has_the_directories_that_tmpfiles_makes():
    unit, made = source("platform/systemd/pennygate.service"), source("platform/systemd/pennygate-tmpfiles.conf")
    writable = re.search(r"^ReadWritePaths=(.*)$", unit, re.M)[1].split()
    socket = re.search(r"^ListenStream=(.*)/", source("platform/systemd/pennygate.socket"), re.M)[1]
    assert re.findall(r"^d (\S+)", made, re.M) == [*(path for path in writable if path.startswith("/run/")), socket]
    assert not re.search(r"^RuntimeDirectory", unit, re.M), "it would be deleted under running processes"
    external = source("platform/lighttpd/external.conf")
    assert "run-directory = '/run/pennygate' " in external and "'/run/pennygate-web/pennygate.sock'" in external
