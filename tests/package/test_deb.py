"""The life of the Debian package, in this order: built, installed, used through lighttpd, upgraded,
removed, installed again, purged."""
import json
import os
import re
import stat
import subprocess

import pytest

from conftest import HIGHER, VERSION, build
from harness import Call, until

CHAT = "/ai/v1/chat/completions"
BODY = json.dumps({"stream": True, "messages": [{"role": "user", "content": "Why is the sea salt?"}]}).encode()
KEPT = ("/etc/pennygate/pennygate.conf", "/etc/pennygate/key", "/etc/pennygate/secret", "/var/lib/pennygate/data.mdb",
        "/var/lib/pennygate/periods")


def ask(host, **options):
    return Call(host.port, "POST", CHAT, BODY, [("Content-Type", "application/json")], **options)


def mode_of(host, name):
    """Mode, user and group, the latter two as the host calls them."""
    status = os.lstat(host.path(name))
    names = [{line.split(":")[2]: line.split(":")[0] for line in host.read(f"etc/{table}").splitlines()}
             for table in ("passwd", "group")]
    return (f"{stat.S_IMODE(status.st_mode):o} {names[0][str(status.st_uid)]} {names[1][str(status.st_gid)]}")


def admitted(host):
    return sum(day["admitted"] for day in json.loads(host.run("pennygate", "stats", "--json"))["days"])


def test_two_builds_have_the_same_bytes(package, tmp_path):
    assert build(VERSION, tmp_path / "elsewhere").read_bytes() == package.read_bytes()


def test_lintian_finds_nothing(package):
    done = subprocess.run(["lintian", "--allow-root", "--fail-on", "error,warning", package], capture_output=True,
                          text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_it_installs_and_makes_the_store(host, package):
    told = host.systemd(lambda: host.install(package))
    for unit in ("pennygate.service", "pennygate.socket"):
        assert f"preset {unit}" in told and f"start {unit}" in told, "enabled, in Debian's words, and started"
    assert {name: mode_of(host, name) for name in (
        "/etc/pennygate", "/etc/pennygate/pennygate.conf", "/etc/pennygate/secret", "/var/lib/pennygate",
        "/run/pennygate", "/run/pennygate-web")} == {
            "/etc/pennygate": "750 root pennygate", "/etc/pennygate/pennygate.conf": "640 root pennygate",
            "/etc/pennygate/secret": "600 pennygate pennygate", "/var/lib/pennygate": "700 pennygate pennygate",
            "/run/pennygate": "700 pennygate pennygate", "/run/pennygate-web": "2750 pennygate www-data"}
    assert host.run("pennygate", "version") == f"pennygate {VERSION}\n"


def test_the_owner_is_told_what_is_missing(host):
    said = host.run("pennygate", "check", check=False)
    assert "1 fault:" in said and "FAULT       no model: write a section model NAME" in said


def test_the_units_are_right_and_hard(host):
    """Verified below the host's root, where only systemd's own units are missing."""
    units = [f"/lib/systemd/system/pennygate.{kind}" for kind in ("service", "socket")]
    done = subprocess.run(["systemd-analyze", "--man=no", f"--root={host.root}", "verify", *units],
                          capture_output=True, text=True, check=False)
    about = [line for line in done.stderr.splitlines() if "pennygate" in line and "target" not in line]
    assert about == []
    done = subprocess.run(["systemd-analyze", "security", "--offline=yes", "--threshold=20", host.path(units[0])],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_unfinished_it_starts_and_answers_503(host):
    host.run("lighttpd-enable-mod", "pennygate")
    host.listen()
    host.start_service()
    host.start_web()
    answer = ask(host).answer()
    assert (answer.status, answer.code) == (503, "configuration")
    assert host.service.poll() is None


def finish(host, model):
    """What the owner does: the comment signs go, and a model of ours stands in for a real one."""
    conf = host.path("/etc/pennygate/pennygate.conf")
    text, n = re.subn(r"^#(?! |$)", "", conf.read_text(encoding="utf-8"), flags=re.M)
    assert n > 3
    text = re.sub(r"^# (?=   )", "", text, flags=re.M)
    conf.write_text(text.replace("https://api.openai.com/v1", model.url + "/v1"), encoding="utf-8")


def test_the_owner_finishes_it_and_nothing_is_restarted(host, model):
    key = host.path("/etc/pennygate/key")
    host.run("install", "-m", "640", "-g", "pennygate", "/dev/null", "/etc/pennygate/key")
    key.write_text("sk-practice-0123456789\n", encoding="ascii")
    finish(host, model)
    assert "0 faults" in host.run("pennygate", "check")
    # The first to come may be told that the program is starting anew, by itself.
    answer = until(lambda: (got := ask(host).answer()).status == 200 and got, 10, "an answer")
    assert answer.events()[-1] == "[DONE]"
    assert "sea is salt" in answer.text
    until(lambda: admitted(host) == 1, 10, "the call in the figures")


def allowed():
    """The names of the system calls that the unit lets through."""
    groups, name = {}, None
    for line in subprocess.run(["systemd-analyze", "syscall-filter"], capture_output=True, text=True,
                               check=True).stdout.splitlines():
        if line.startswith("@"):
            name = line.strip()
            groups[name] = []
        elif line.startswith("    ") and not line.strip().startswith("#"):
            groups[name].append(line.strip())

    def members(group):
        return {one for entry in groups[group] for one in (members(entry) if entry in groups else [entry])}
    return members


def test_the_unit_allows_what_an_answer_needs(host):
    """The service anew, watched, with all that is made at a start."""
    host.stop_service()
    trace = host.directory / "trace"
    host.start_service("strace", "-f", "-qq", "-e", "signal=none", "-o", trace)
    assert ask(host).answer().status == 200
    until(lambda: admitted(host) == 2, 30, "the call in the figures")
    host.stop_service()
    text = trace.read_text(encoding="utf-8", errors="replace")
    text = text[text.index('execve("/usr/sbin/pennygate"'):]
    called = set(re.findall(r"^\d+ +([a-z_0-9]+)\(", text, re.M))
    assert len(called) > 30
    filters = [word for line in host.unit("service", "SystemCallFilter") for word in line.split()]
    assert filters == ["@system-service", "~@privileged", "@resources"]
    members = allowed()
    assert called - (members("@system-service") - members("@privileged") - members("@resources")) == set()
    host.start_service()


def test_an_upgrade_keeps_all_and_lets_visitors_wait(host, higher):
    kept = {name: host.path(name).read_bytes() for name in KEPT[:3]}
    told = host.systemd(lambda: host.install(higher))
    assert "restart pennygate.service" in told
    assert not [line for line in told if line.startswith("stop") or line.startswith("restart") and "socket" in line]
    # The restart: the socket stays, and a call that comes between waits.
    host.stop_service()
    waits = ask(host)
    host.start_service()
    assert waits.answer().status == 200
    assert host.run("pennygate", "version") == f"pennygate {HIGHER}\n"
    assert {name: host.path(name).read_bytes() for name in KEPT[:3]} == kept
    assert mode_of(host, "/etc/pennygate/pennygate.conf") == "640 root pennygate"
    until(lambda: admitted(host) == 3, 10, "the call beside those from before")


def test_a_lost_store_is_not_made_anew(host, higher):
    host.stop_service()
    host.path("/var/lib/pennygate").rename(host.path("/var/lib/moved"))
    host.install(higher, "--reinstall")
    assert not host.exists("/var/lib/pennygate")
    host.path("/var/lib/moved").rename(host.path("/var/lib/pennygate"))
    assert admitted(host) == 3


WEB_SERVERS = ("apache2ctl -t", "lighttpd -tt -f /etc/lighttpd/lighttpd.conf", "nginx -t -q")
INCLUDE = "include snippets/pennygate.conf;"


def in_nginx(host, old, new):
    conf = host.path("/etc/nginx/sites-available/default")
    text = conf.read_text(encoding="utf-8")
    assert old in text
    conf.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_the_other_web_servers_take_their_configurations(host):
    host.run("a2enmod", "proxy_fcgi")
    host.run("a2enconf", "pennygate")
    in_nginx(host, "server {\n", f"server {{\n{INCLUDE}\n")
    for command in WEB_SERVERS:
        host.run(*command.split())


def test_a_removal_keeps_the_data(host, higher):
    before = {name: host.path(name).read_bytes() for name in KEPT}
    host.stop_listening()
    told = host.systemd(lambda: host.apt("remove", "pennygate"))
    stops = [line for line in told if line.startswith("stop")]
    assert stops == ["stop pennygate.socket", "stop pennygate.service"], "the socket first, or it starts the service"
    assert not host.exists("/usr/sbin/pennygate")
    assert {name: host.path(name).read_bytes() for name in KEPT} == before
    host.run("lighttpd", "-tt", "-f", "/etc/lighttpd/lighttpd.conf")
    assert ask(host).answer().status == 503, "from lighttpd, which finds nobody behind the socket"
    host.install(higher)
    assert admitted(host) == 3
    assert mode_of(host, "/etc/pennygate") == "750 root pennygate"


def test_a_purge_deletes_all_but_the_user(host):
    in_nginx(host, INCLUDE, "")
    host.systemd(lambda: host.apt("purge", "pennygate"))
    left = [str(path.relative_to(host.root)) for top in ("etc", "lib", "run", "usr", "var")
            for path in host.path(top).rglob("*pennygate*")]
    assert left == []
    assert host.ids("pennygate")
    for command in WEB_SERVERS:
        host.run(*command.split())


def test_installed_anew_it_begins_anew(host, package):
    host.install(package)
    assert admitted(host) == 0
    assert "no model" in host.run("pennygate", "check", check=False)


def test_a_first_store_that_was_cut_short_is_made(host, package):
    """By a power cut while it was installed: dpkg configures it again."""
    host.apt("purge", "pennygate")
    host.run("dpkg", "--unpack", f"/tmp/{package.name}")
    host.path("/var/lib/pennygate").mkdir(mode=0o700)
    host.path("/var/lib/pennygate/making").touch(mode=0o600)
    for name in ("/var/lib/pennygate", "/var/lib/pennygate/making"):
        os.chown(host.path(name), *host.ids("pennygate"))
    host.run("dpkg", "--configure", "-a")
    assert admitted(host) == 0
    assert not host.exists("/var/lib/pennygate/making")
