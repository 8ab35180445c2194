"""The command line: what each command prints, what it leaves behind, and its exit status."""
import csv
import datetime
import io
import itertools
import json
import os
import pathlib
import pwd
import re
import shutil
import signal
import socket
import stat
import subprocess
import time

import pytest

from harness import GROUP, ROOT, USER, Site, limit, until

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
OWN = ("--owner", USER) if os.geteuid() == 0 else ()


class NoModel:
    """No command but serve talks to a model."""
    url = "http://127.0.0.1:9"


@pytest.fixture
def bare():
    """A site without a store."""
    site = Site(NoModel(), limits=dict.fromkeys(("visitor-day", "visitor-burst", "visitor-at-once", "site-day")))
    site.directory.chmod(0o755)
    yield site
    site.close()


@pytest.fixture
def made(bare):
    return bare.init()


def fails(site, status, *arguments, **env):
    """The command's messages; it must end with this status."""
    done = site.run(*arguments, check=False, **env)
    assert done.returncode == status, f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stderr


def alone(site, *arguments, **options):
    """The program without -c."""
    return subprocess.run([site.program, *arguments], text=True, capture_output=True, timeout=60,
                          stdin=options.pop("stdin", subprocess.DEVNULL),
                          env={**site.environment(), **options}, check=False)


def tree(directory):
    return {str(path.relative_to(directory)): path.read_bytes() if path.is_file() else None
            for path in directory.rglob("*")}


# ---- arguments -----------------------------------------------------------------------------


def test_without_arguments_and_web_server_it_helps(bare):
    done = alone(bare)
    assert done.returncode == 0
    assert done.stdout == alone(bare, "help").stdout == alone(bare, "--help").stdout
    for name in ("init", "check", "stats", "serve", "pause", "resume", "adopt", "clock", "maintain"):
        assert re.search(rf"^  {name} ", done.stdout, re.M)
    assert max(map(len, done.stdout.splitlines())) <= 80


@pytest.mark.parametrize("name, forms, flags", [
    ("stats", [""], ["-c", "--days", "--json", "--csv"]), ("clock", ["", " reset"], ["-c"]),
    ("keys", [" add NAME", " list", " revoke NAME"], ["-c", "--json", "--limit"]),
    ("help", ["", " COMMAND"], ["-c"]), ("maintain", [""], ["-c", "--stop"])])
def test_help_on_a_command(bare, name, forms, flags):
    done = alone(bare, "help", name)
    assert (done.returncode, done.stderr) == (0, "")
    usage = [line.partition("pennygate ")[2] for line in done.stdout.partition("\n\n")[0].splitlines()]
    assert usage == [f"{name}{form} [flags]" for form in forms]
    assert re.findall(r"^  (-\S+)", done.stdout, re.M) == flags
    what = re.search(rf"^  {name} +(.*)", alone(bare, "help").stdout, re.M)[1]
    assert f"\n{what}" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    for asked in ([name, "--help"], [name, "-h"], ["-c", "/nowhere", name, "--help"], [name, "--help", "--nonsense"]):
        if name != "help":
            assert alone(bare, *asked).stdout == done.stdout, asked


def test_help_needs_nothing_else(bare):
    everything = alone(bare, "help").stdout
    for asked in (["-h"], ["-c", "/nowhere", "help"], ["-c", "/nowhere", "-h"], ["help", "-c", "/nowhere"]):
        done = alone(bare, *asked)
        assert (done.returncode, done.stdout, done.stderr) == (0, everything, ""), asked
    assert "--days N" in alone(bare, "stats", "--json", "--help").stdout
    for asked in (["help", "nothing"], ["help", "stats", "pause"], ["nothing", "--help"], ["--nothing", "--help"]):
        assert alone(bare, *asked).returncode == 2, asked
    assert not bare.store.exists()


def test_version(bare):
    for name in (["version"], ["--version"], ["-c", "/nowhere", "version"], ["--version", "-c", "/nowhere"]):
        done = alone(bare, *name)
        assert (done.returncode, done.stderr) == (0, "")
        assert re.fullmatch(r"pennygate \S+\n", done.stdout)


@pytest.mark.parametrize("arguments, says", [
    (["frobnicate"], "unknown command 'frobnicate'"),
    (["ini"], "unknown command"),
    (["stats", "--jso"], "unknown flag '--jso'"),
    (["stats", "--json=1"], "unknown flag"),
    (["stats", "--json", "--json"], "given twice"),
    (["stats", "--json", "--csv"], "--json or --csv"),
    (["stats", "--days="], "a value is missing"),
    (["stats", "--days", "0"], "--days 1 to 400"),
    (["stats", "--days", "401"], "--days 1 to 400"),
    (["stats", "--days", "-1"], "--days 1 to 400"),
    (["stats", "--days", "7d"], "--days 1 to 400"),
    (["check", "--json"], "does not go with 'check'"),
    (["pause", "now"], "unexpected argument 'now'"),
    (["clock", "set"], "unexpected argument 'set'"),
    (["clock", "reset", "reset"], "unexpected argument"),
    (["serve", "--socket="], "a value is missing"),
    (["init", "--owner", "no-such-user"], "no such user"),
    (["--"], "unknown flag"),
])
def test_what_is_not_understood(bare, arguments, says):
    assert says in fails(bare, 2, *arguments)
    assert not bare.store.exists()


def test_a_value_that_is_missing_at_the_end(bare):
    for arguments in (["stats", "--days"], ["check", "-c"]):
        done = alone(bare, *arguments)
        assert done.returncode == 2 and "a value is missing" in done.stderr


def test_every_command_and_flag_is_in_the_manual(bare):
    manual = (ROOT / "gateway/pennygate.8").read_text(encoding="utf-8")
    names = re.findall(r"^  (-{0,2}[a-z]+) ", alone(bare, "help").stdout, re.M)
    assert len(names) > 15
    for name in names:
        if name.startswith("-"):
            assert f".It Fl {name[1:]}" in manual or f", Fl {name[1:]}" in manual, name
        else:
            assert re.search(rf"^\.Cm .*\b{name}\b", manual, re.M), name


def test_output_that_cannot_be_written_is_a_failure(made):
    with open("/dev/full", "w", encoding="ascii") as full:
        done = subprocess.run([made.program, "stats", "-c", made.config], stdout=full, text=True,
                              stderr=subprocess.PIPE, env=made.environment(), check=False)
    assert done.returncode == 1 and "standard output" in done.stderr


def test_closed_standard_descriptors_do_not_end_in_the_store(made):
    def close_all():
        for fd in range(3):
            os.close(fd)

    for name in ("pause", "resume", "check", "frobnicate"):
        subprocess.run([made.program, name, "-c", made.config], env=made.environment(),
                       preexec_fn=close_all, check=False)
    assert "0 faults" in made.run("check")


# ---- which configuration -------------------------------------------------------------------


def test_where_the_configuration_comes_from(made):
    assert alone(made, "check", PENNYGATE_CONFIG=str(made.config)).returncode == 0
    assert alone(made, "-c", str(made.config), "check", PENNYGATE_CONFIG="/nowhere").returncode == 0
    done = alone(made, "check", PENNYGATE_CONFIG="/nowhere")
    assert done.returncode == 2 and "/nowhere: " in done.stderr


def test_overrides(made):
    assert re.search(r"site-day +5 calls", made.run("check", PENNYGATE_SITE_LIMIT="5"))
    assert re.search(r"visitor-day +3 calls", made.run("check", PENNYGATE_VISITOR_LIMIT="3"))
    assert re.search(r"visitor-burst +1 call ", made.run("check", PENNYGATE_LIMIT_VISITOR_BURST_MAX="1"))
    assert "PENNYGATE_LIMIT: no option" in fails(made, 2, "check", PENNYGATE_LIMIT="5")
    assert "PENNYGATE_SITE_LIMIT: max '05'" in fails(made, 2, "check", PENNYGATE_SITE_LIMIT="05")


# ---- init ----------------------------------------------------------------------------------


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_init_makes_a_private_store(bare):
    out = bare.run("init", *OWN)
    assert mode(bare.store) == 0o700 and mode(bare.secret) == 0o600
    assert mode(bare.store / "run") == 0o700
    for name in ("data.mdb", "lock.mdb", "periods"):
        assert mode(bare.store / name) == 0o600
    assert {path.stat().st_uid for path in [bare.store, bare.secret, *bare.store.rglob("*")]} == \
        {pwd.getpwnam(USER).pw_uid}
    for word in (str(bare.store), str(bare.secret), "check"):
        assert word in out
    assert bare.secret.read_text(encoding="ascii").strip() not in out


def test_init_never_overwrites(made):
    before = tree(made.directory)
    assert "already" in fails(made, 1, "init", *OWN)
    assert tree(made.directory) == before


# By which init changes something, or sees to it that it stays; not every machine has all.
CHANGES = ("openat", "write", "pwrite64", "fsync", "link", "rename", "renameat", "unlink", "chown", "fchownat")


def forget(site):
    for directory in (site.store, site.directory / "run"):
        shutil.rmtree(directory, ignore_errors=True)
    for path in site.directory.glob(f"{site.secret.name}*"):
        path.unlink()


def made_at_boot(path, site):
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(mode=0o700)
    site.own(path)


def killed_at(site, call, n):
    """Whether there was an n-th call of that name, at which init was killed."""
    done = subprocess.run(["/usr/bin/strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace=?{call}", "-e",
                           f"inject=?{call}:signal=KILL:when={n}", site.program, "-c", site.config, "init", *OWN],
                          capture_output=True, timeout=60, env=site.environment(), stdin=subprocess.DEVNULL,
                          check=False)
    assert done.returncode in (0, -signal.SIGKILL), done
    return done.returncode != 0


@pytest.mark.parametrize("call", CHANGES)
@pytest.mark.parametrize("durability", ["commit", "lease"])
def test_init_that_was_killed_is_ended_by_the_next_one(bare, durability, call):
    """At whatever moment the power goes: the owner is told of init, and it does what is left."""
    bare.site.update({"durability": durability, "run-directory": bare.directory / "run"})
    bare.write()
    for n in itertools.count(1):
        if not killed_at(bare, call, n):
            break
        if durability == "lease":
            made_at_boot(bare.directory / "run", bare)
        is_unfinished = not any((bare.store / name).exists() for name in ("data.mdb", "lease"))
        if is_unfinished:
            said = bare.run("check", check=False)
            assert said.returncode == 1 and "pennygate init" in " ".join(said.stdout.split()), (n, said)
        done = bare.run("init", *OWN, check=False)
        is_whole = "there is a store already" in done.stderr
        assert done.returncode == 0 or is_whole and not (bare.store / "making").exists(), (n, done)
        assert "0 faults" in bare.run("check"), n
        assert not (bare.store / "making").exists()
        assert "already" in fails(bare, 1, "init", *OWN)
        forget(bare)
    assert json.loads(bare.run("stats", "--json"))["paused"] is False


def test_init_makes_no_secret_where_a_store_is(made):
    """A new secret would not open the store, and hide that the right one is missing."""
    made.secret.unlink()
    before = tree(made.directory)
    says = fails(made, 1, "init", *OWN)
    assert "already" in says and str(made.secret) in says and "pennygate(8)" in says
    assert tree(made.directory) == before
    for path in (made.data_file, made.store / "lock.mdb"):
        path.unlink()
    assert "already" in fails(made, 1, "init", *OWN), "what is left of a store is one"
    assert not made.secret.exists()


@pytest.mark.parametrize("own_run_directory", [False, True])
def test_a_secret_that_is_gone_for_good(bare, own_run_directory):
    """What pennygate(8) says: the store is moved away, and everything begins anew."""
    if own_run_directory:
        bare.site["run-directory"] = bare.directory / "run"
        bare.write()
    bare.run("init", *OWN)
    bare.run("pause")
    bare.secret.unlink()
    for command in ("stats", "pause", "adopt", "check"):
        done = bare.run(command, check=False)
        said = " ".join((done.stdout + done.stderr).split())
        assert done.returncode == 1 and str(bare.secret) in said and "pennygate(8)" in said, command
    manual = (ROOT / "gateway/pennygate.8").read_text(encoding="utf-8")
    assert ".Ss A lost secret" in manual
    bare.store.rename(bare.directory / "store.old")
    bare.run("init", *OWN)
    assert "0 faults" in bare.run("check")
    assert json.loads(bare.run("stats", "--json"))["paused"] is False


def test_init_keeps_a_secret_that_is_there(bare):
    bare.secret.write_text("5" * 64 + "\n", encoding="ascii")
    bare.secret.chmod(0o600)
    bare.own(bare.secret)
    assert "kept" in bare.run("init", *OWN)
    assert bare.secret.read_text(encoding="ascii") == "5" * 64 + "\n"


@pytest.mark.parametrize("content, file_mode", [("", 0o600), ("55\n", 0o600), ("5" * 64 + "\n", 0o644)])
def test_init_refuses_a_secret_that_is_none(bare, content, file_mode):
    bare.secret.write_text(content, encoding="ascii")
    bare.secret.chmod(file_mode)
    bare.own(bare.secret)
    assert str(bare.secret) in fails(bare, 1, "init", *OWN)
    assert not (bare.store / "data.mdb").exists()


def test_init_does_not_make_what_is_above(bare):
    bare.site["store"] = bare.directory / "a" / "b"
    bare.write()
    assert f"is missing: mkdir -p {bare.directory / 'a'}\n" in fails(bare, 1, "init", *OWN)
    assert not (bare.directory / "a").exists()


def test_init_refuses_a_directory_that_others_can_write(bare):
    bare.store.mkdir()
    bare.own(bare.store)
    bare.store.chmod(0o777)
    assert "chmod 700" in fails(bare, 1, "init")
    assert tree(bare.store) == {}


def test_init_on_a_configuration_that_does_not_parse(bare):
    bare.write("site { store = '/nowhere'\n")
    assert re.search(r"pennygate\.conf:2: the file ends inside", fails(bare, 2, "init", *OWN))


def test_a_run_directory_that_no_boot_has_made_is_named(bare):
    run = bare.site["run-directory"] = bare.directory / "run"
    bare.write()
    bare.run("init", *OWN)
    shutil.rmtree(run)
    assert f"{run}: " in fails(bare, 1, "stats")
    done = bare.run("check", check=False)
    said = " ".join(done.stdout.split())
    assert done.returncode == 1 and f"{run}: " in said and "tmpfiles.d" in said


def test_init_makes_a_configured_run_directory(bare):
    bare.site["run-directory"] = bare.directory / "run"
    bare.write()
    assert "tmpfiles" in bare.run("init", *OWN)
    assert mode(bare.directory / "run") == 0o700
    assert not (bare.store / "run").exists()
    assert "0 faults" in bare.run("check")
    (bare.directory / "run" / "board").unlink(missing_ok=True)
    for path in (bare.directory / "run").iterdir():
        path.unlink()
    (bare.directory / "run").rmdir()
    assert "1 fault:" in bare.run("check", check=False).stdout
    assert not (bare.directory / "run").exists()


@pytest.mark.parametrize("tz, zone", [("CET-1CEST,M3.5.0,M10.5.0/3", "CET-1CEST,M3.5.0,M10.5.0/3"), ("XYZ5", "XYZ5")])
def test_init_keeps_the_zone(bare, tz, zone):
    bare.site["timezone"] = "local"
    bare.write()
    assert zone in bare.run("init", *OWN, TZ=tz)
    for other in ("UTC0", "JST-9"):
        assert f"zone {zone}," in bare.run("check", TZ=other)


@ROOT_ONLY
def test_root_must_say_whose_the_store_will_be(bare):
    assert "--owner" in fails(bare, 1, "init")
    assert not bare.store.exists()
    bare.store.mkdir(mode=0o700)
    assert "--owner" in fails(bare, 1, "init")
    bare.run("init", "--owner", "root")
    assert (bare.store / "data.mdb").stat().st_uid == 0


@ROOT_ONLY
def test_root_gives_away_an_empty_directory_only(bare):
    bare.store.mkdir(mode=0o700)
    (bare.store / "file").write_text("", encoding="ascii")
    assert "belongs to root" in fails(bare, 1, "init", "--owner", USER)
    assert bare.store.stat().st_uid == 0
    (bare.store / "file").unlink()
    bare.run("init", "--owner", f"{USER}:{GROUP}")
    assert bare.store.stat().st_uid == pwd.getpwnam(USER).pw_uid


@ROOT_ONLY
def test_root_makes_the_secret_where_only_root_can(bare):
    place = bare.directory / "etc"
    place.mkdir(mode=0o755)
    bare.site["secret-file"] = place / "secret"
    bare.write()
    bare.run("init", *OWN)
    assert (place / "secret").stat().st_uid == pwd.getpwnam(USER).pw_uid
    assert "0 faults" in bare.run("check")


@ROOT_ONLY
def test_root_hands_over_a_secret_that_only_root_can_read(bare):
    """A copy that was put back, or what an init that was killed has left."""
    bare.secret = bare.site["secret-file"] = bare.directory / "etc" / "secret"
    bare.secret.parent.mkdir(mode=0o755)
    bare.write()
    bare.secret.write_text("5" * 64 + "\n", encoding="ascii")
    bare.secret.chmod(0o600)
    bare.run("init", *OWN)
    assert bare.secret.owner() == USER and mode(bare.secret) == 0o600
    assert bare.secret.read_text(encoding="ascii") == "5" * 64 + "\n"
    assert "0 faults" in bare.run("check")


@ROOT_ONLY
def test_root_makes_no_secret_where_others_could_put_one(bare):
    place = bare.directory / "etc"
    place.mkdir()
    place.chmod(0o757)
    bare.site["secret-file"] = place / "secret"
    bare.write()
    bare.run("init", *OWN)
    place.chmod(0o755)
    assert (place / "secret").stat().st_uid == pwd.getpwnam(USER).pw_uid


@pytest.mark.parametrize("example", sorted((ROOT / "platform/examples").glob("*.conf")), ids=lambda path: path.name)
def test_the_examples_can_be_used(bare, example):
    text = example.read_text(encoding="utf-8").replace("/etc/pennygate", str(bare.directory))
    bare.write(text.replace("/var/lib/pennygate", str(bare.store)))
    bare.run("init", *OWN)
    assert "0 faults" in bare.run("check")


@ROOT_ONLY
def test_init_notices_that_the_owner_cannot_read_the_files(bare):
    os.chown(bare.key, 0, 0)
    assert "the store's owner, must be able to read" in fails(bare, 1, "init", *OWN)
    assert not (bare.store / "data.mdb").exists()


# ---- whose commands these are --------------------------------------------------------------

COMMANDS = (["stats"], ["pause"], ["resume"], ["adopt"], ["clock"], ["clock", "reset"], ["maintain"], ["check"])


@ROOT_ONLY
def test_commands_of_root_leave_the_owner_his_files(made):
    for command in COMMANDS:
        made.run(*command)
    owner = pwd.getpwnam(USER).pw_uid
    assert {path.stat().st_uid for path in made.store.rglob("*")} == {owner}


@ROOT_ONLY
def test_commands_of_strangers_stop(made):
    before = tree(made.store)
    for command in COMMANDS:
        done = subprocess.run([made.program, *command, "-c", made.config], text=True, user=1, group=1,
                              extra_groups=[], capture_output=True, env=made.environment(), check=False)
        # uid 1 cannot read the key either, which is told first
        assert done.returncode in (1, 2), command
        assert "belongs to" in done.stderr or "key-file" in done.stderr
    assert tree(made.store) == before


@ROOT_ONLY
def test_commands_of_strangers_who_can_read_the_files_stop(made):
    made.demo["key-file"] = None
    made.write()
    for command in COMMANDS:
        done = subprocess.run([made.program, *command, "-c", made.config], text=True, user=1, group=1,
                              extra_groups=[], capture_output=True, env=made.environment(), check=False)
        assert done.returncode == 1 and f"belongs to {USER}" in done.stderr


@ROOT_ONLY
def test_who_may_not_read_the_configuration_hears_who_may(made):
    made.config.chmod(0o600)
    for command in COMMANDS:
        done = subprocess.run([made.program, *command, "-c", made.config], text=True, user=1, group=1,
                              extra_groups=[], capture_output=True, env=made.environment(), check=False)
        assert done.returncode == 2 and "Permission denied" in done.stderr
        assert "(run this as root or as the store's owner)" in done.stderr
    done = made.run("stats", check=False)
    assert done.returncode == 1 and "Permission denied" in done.stderr and "must be able to read" in done.stderr
    assert "run this as root" not in done.stderr


def test_no_command_makes_a_store(bare):
    before = tree(bare.directory)
    for command in COMMANDS:
        done = bare.run(*command, check=False)
        assert done.returncode == 1
        assert "pennygate init" in " ".join((done.stdout + done.stderr).split())
    assert tree(bare.directory) == before


# ---- check ---------------------------------------------------------------------------------


def test_check_tells_everything_on_one_screen(made):
    made.limits["spend"] = limit("everyone", "cost", "month", "$20.00")
    made.write()
    out = made.run("check")
    assert max(map(len, out.replace(str(made.directory), "/d").splitlines())) <= 80
    assert len(out.splitlines()) <= 50
    for words in (r"visitor-day +40 calls +in a UTC day +each address", r"visitor-at-once +2 at once +each address",
                  r"site-day +600 calls +in a UTC day +everyone together", r"visitor-burst +10 calls +in any 10s",
                  r"spend +\$20\.00 +in a UTC month", r"price-input = \$1\.00", "provider = openai",
                  "max-history = 10", "streams = 8", "level = info", r"at most \$\d+\.\d+ a day can be spent",
                  "KiB in use", "zone ", "0 open streams", r"bypass +off, without a secret",
                  r"alerts +none is posted, without a url", r"transcripts +off, without keep = yes", "breaker-after = 5",
                  "require = none", "proxy-header = x-forwarded-for"):
        assert re.search(words, out), words
    assert out.endswith("\n0 faults\n")
    assert "sk-practice" not in out
    assert made.secret.read_text(encoding="ascii").strip() not in out


def with_secret(site, secret, mode=0o600, **more):
    path = site.directory / "bypass"
    path.write_text(secret + "\n", encoding="ascii")
    path.chmod(mode)
    site.own(path)
    site.sections["bypass"] = {"secret-file": path, **more}


def with_token(site, mode=0o600):
    path = site.directory / "token"
    path.write_text("token-0123456789\n", encoding="ascii")
    path.chmod(mode)
    site.own(path)
    site.sections["alerts"] = {"url": "https://hooks.example/T0/hidden?k=hidden", "token-file": path}


def link_key(site):
    site.key.unlink()
    site.key.symlink_to(site.secret)


def test_check_tells_of_callers_bypass_alerts_and_transcripts_without_secrets(made):
    with_secret(made, "hidden-0123456789", unit="cost", window="hour", max="$0.25")
    with_token(made)
    made.sections["transcripts"] = {"keep": "yes"}
    made.site.update({"allowed-origins": [f"https://www{i}.example.org" for i in range(12)], "require": "key",
                      "trusted-proxies": ["10.0.0.0/8", "fd00::/8"], "cookie-cross-site": "yes"})
    made.limits["spend"] = {**limit("everyone", "cost", "day", "$2.00"), "pace": "yes", "dry-run": "yes"}
    made.limits["hour"] = limit("key", "calls", "hour", 20)
    made.write()
    out = made.run("check")
    assert max(map(len, out.replace(str(made.directory), "/d").splitlines())) <= 80
    for words in (r"bypass +\$0\.25 +in a UTC hour +with the secret", r"spend +\$2\.00 +in a UTC day +everyone together",
                  "released evenly over the day", "dry-run: only counts", r"hour +20 calls +in a UTC hour +each key",
                  r"url = https://hooks\.example/\.\.\.", r"at = \{80, 100\}", r"keep = yes +keep-for = 30d",
                  r"trusted-proxies = \{10\.0\.0\.0/8, fd00::/8\}", r"at most \$6\.00 more a day by calls with"):
        assert re.search(words, " ".join(out.split()) if "more a day" in words else out), words
    assert ", ".join(f"https://www{i}.example.org" for i in range(12)) in " ".join(out.split())
    assert "hidden" not in out and "token-0123456789" not in out
    assert "require = key, and no key is issued: nobody is admitted" in " ".join(out.split())
    assert out.endswith("\n0 faults\n")


def test_check_shows_no_secret_of_the_environment(made):
    out = made.run("check", PENNYGATE_BYPASS_SECRET="hidden-0123456789")
    assert "secret = (set)" in out and "hidden" not in out
    says = fails(made, 2, "check", PENNYGATE_BYPASS_SECRET="hidden 0123456789")
    assert "PENNYGATE_BYPASS_SECRET: secret is not one word" in says and "hidden" not in says


@pytest.mark.parametrize("change, says", [
    (lambda site: site.limits.update({"site-day": limit("everyone", "calls", "day", "unlimited")}), "no limit for everyone"),
    (lambda site: site.limits.update({"site-day": {**limit("everyone", "calls", "day", 9), "dry-run": "yes"}}),
     "is a dry-run and refuses nothing"),
    (lambda site: site.site.update({"cookie-cross-site": "yes"}), "allowed-origins names no page"),
    (lambda site: with_secret(site, "hidden-01234567"), "shorter than 16 characters"),
    (lambda site: with_secret(site, "hidden-0123456789", 0o644), "others can read secret-file"),
    (lambda site: with_token(site, 0o644), "others can read token-file"),
    (lambda site: site.demo.update({"price-output": None}), "price-output is missing"),
    (lambda site: site.demo.update({"price-input": "0.0000015"}), "was it meant per token"),
    (lambda site: site.limits.update(few=limit("address", "tokens", "day", 10)), "the smallest request"),
    (lambda site: site.key.chmod(0o644), "others can read key-file"),
    (lambda site: site.demo.update({"key-file": site.secret}), "model demo: key-file is the site's secret-file"),
    (link_key, "model demo: key-file is the site's secret-file"),
    (lambda site: site.sections.update(bypass={"secret-file": site.secret, "max": 9}), "bypass: secret-file is the site's"),
    (lambda site: site.sections.update(alerts={"url": "http://127.0.0.1:9/", "token-file": site.secret}),
     "alerts: token-file is the site's secret-file"),
    (lambda site: site.demo.update({"ca-file": "/nowhere/ca.pem"}), "ca-file /nowhere/ca.pem: no file"),
    (lambda site: site.demo.update({"url": "http://127.0.0.1:9/v1/chat/completions"}), "which is appended"),
    (lambda site: site.secret.chmod(0o644), "chmod 600"),
    (lambda site: site.data_file.write_bytes(b""), "store: "),
    (lambda site: site.data_file.unlink(), "store: "),
    (lambda site: site.periods.unlink(), "store: "),
])
def test_check_finds(made, change, says):
    change(made)
    made.write()
    done = made.run("check", check=False)
    assert done.returncode == 1
    assert re.search(r"^FAULT ", done.stdout, re.M)
    assert says in " ".join(done.stdout.split()), done.stdout
    assert "hidden" not in done.stdout
    assert max(map(len, done.stdout.replace(str(made.directory), "/d").splitlines())) <= 80
    assert "\n1 fault: every request is answered with 503\n" in done.stdout


def test_check_says_what_is_right_but_perhaps_not_meant(made):
    made.limits["mine"] = limit("address", "calls", "day", 0)
    made.demo["url"] = "http://192.0.2.1/v1"
    made.request["max-message-chars"] = 8001
    made.site["trusted-proxies"] = ["0.0.0.0/0"]
    made.write()
    out = made.run("check")
    assert out.endswith("\n0 faults\n") and "FAULT" not in out
    for words in ("trusted-proxies has 0.0.0.0/0: anybody there can choose", "limit mine admits nothing", "over plain http", "max-message-chars is above max-input-chars"):
        assert words in " ".join(out.split())
    made.request["max-message-chars"] = 8000
    made.write()
    assert "max-message-chars is above" not in " ".join(made.run("check").split())


def test_check_tells_when_all_visitors_seem_to_share_a_proxys_address(made, model):
    made.demo["url"] = model.url + "/v1"
    made.write()
    for forwarded in ({}, {"HTTP_X_FORWARDED_FOR": "192.0.2.1"}, {"HTTP_X_FORWARDED_FOR": "192.0.2.2"}):
        assert "Status: 200" in chat_by_cgi(made, REMOTE_ADDR="10.1.2.3", **forwarded).stdout
    says = " ".join(made.run("check").split())
    assert "note 2 requests today came from a private address" in says
    assert "trusted-proxies = { ... } }" in says and "unless that was done since" not in says
    made.site["trusted-proxies"] = ["10.1.2.3"]
    made.write()
    assert "Status: 200" in chat_by_cgi(made, REMOTE_ADDR="10.1.2.3", HTTP_X_FORWARDED_FOR="192.0.2.1").stdout
    says = " ".join(made.run("check").split())
    assert "note 2 requests today" in says and "unless that was done since" in says


def test_check_tells_of_failures_and_of_an_open_breaker(made, model):
    made.demo.update({"url": model.url + "/v1", "breaker-after": 2})
    made.write()
    model.set(status=500)
    chat_by_cgi(made)
    assert "model demo: its API failed 1 time in a row; at 2 it is left alone" in " ".join(made.run("check").split())
    chat_by_cgi(made)
    out = " ".join(made.run("check").split())
    assert re.search(r"model demo: its API fails or refuses us; it is left alone for \d+s more", out)
    model.set(status=200)


def test_check_finds_a_group_that_is_not_there(made):
    """Only serve needs it: requests that come in another way are answered."""
    made.server["socket-group"] = "no-such-group"
    made.write()
    done = made.run("check", check=False)
    assert done.returncode == 1 and done.stdout.endswith("\n1 fault\n")
    assert "socket-group no-such-group: no such group" in " ".join(done.stdout.split())
    assert cgi(made, PATH_INFO="/v1/models").stdout.startswith("Status: 200")
    assert "no such group" in fails(made, 1, "serve")


@pytest.mark.parametrize("content", ["OPENAI_API_KEY=sk-1", '"sk-1"'])
def test_check_finds_a_key_file_of_another_kind(made, content):
    made.key.write_text(content + "\n", encoding="ascii")
    says = fails(made, 2, "check")
    assert "key-file names a file that must hold the key alone" in says and "sk-1" not in says


def test_check_of_a_configuration_that_does_not_parse(made):
    made.write("site { store = '/a' }\nlimit x { per = address unit = calls window = day max = 010 }\n")
    assert re.search(r"pennygate\.conf:2: limit x: max '010' is not a whole number", fails(made, 2, "check"))


def test_f6_a_cost_limit_without_a_price(made):
    made.limits["spend"] = limit("address", "cost", "1h", "$2.00")
    made.demo["price-input"] = made.demo["price-output"] = None
    made.write()
    assert "a limit counts cost" in " ".join(made.run("check", check=False).stdout.split())


# ---- stats ---------------------------------------------------------------------------------


def test_stats_of_an_empty_store(made):
    out = made.run("stats")
    assert "nothing has been asked for yet" in out
    assert re.search(r"site-day +everyone +calls +day +0 +600 +0", out)
    assert max(map(len, out.splitlines())) <= 80


def test_stats_keys_are_stable(made):
    stats = json.loads(made.run("stats", "--json"))
    assert list(stats) == ["today", "paused", "open_streams", "days", "limits", "totals", "alerts", "models",
                           "top_callers", "live", "time", "first_day", "zone", "store", "clock",
                           "alerts_waiting", "top_counted", "top_whole"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", stats["today"])
    assert stats["limits"] == [{"name": "site-day", "per": "everyone", "unit": "calls", "window": "day",
                                "used": 0, "reserved": 0, "frees_ms": 0, "max": 600, "dry_run": False,
                                "pace": False, "released": 600}]
    rows = list(csv.reader(io.StringIO(made.run("stats", "--csv"))))
    assert rows[0] == [
        "day", "admitted", "settled", "unknown", "given_back", "tokens_in", "tokens_out", "cost_nano",
        "refused_concurrent", "refused_burst", "refused_address", "refused_visitor", "refused_account",
        "refused_key", "refused_anonymous", "refused_site", "too_long", "paused", "busy",
        "meter_unavailable", "invalid", "upstream_errors", "refused_bypass", "bypassed", "denied",
        "breaker", "proxied"]
    manual = (ROOT / "gateway/pennygate-api.7").read_text(encoding="utf-8")
    manual = manual[manual.index(".Sh THE FIGURES"):manual.index(".Sh STATUS")]
    assert list(stats["models"][0]) == ["name", "breaker_open", "breaker_wait_ms", "failures", "overhead"]
    objects = [stats, stats["limits"][0], stats["totals"], stats["models"][0], stats["store"],
               stats["clock"], stats["live"], stats["live"]["decision_us"], rows[0]]
    for key in [key for one in objects for key in one]:
        key = key.removeprefix("refused_") if key in rows[0] else key
        assert re.search(rf"^\.(It )?Cm (.* , |.* )?{key}( |$)", manual, re.M), key


def chat_by_cgi(site, text='{"messages": [{"role": "user", "content": "hello"}]}', **parameters):
    return subprocess.run(
        [site.program], input=text, text=True, capture_output=True, check=False, timeout=60,
        env={**site.environment(), "PENNYGATE_CONFIG": str(site.config), "GATEWAY_INTERFACE": "CGI/1.1",
             "REQUEST_METHOD": "POST", "PATH_INFO": "/v1/chat/completions", "CONTENT_TYPE": "application/json",
             "CONTENT_LENGTH": str(len(text)), "SCRIPT_NAME": "/ai", "REMOTE_ADDR": "192.0.2.9",
             "SERVER_PROTOCOL": "HTTP/1.1", **parameters},
        **{} if os.geteuid() else {"user": USER, "group": GROUP, "extra_groups": []})


def test_stats_do_not_show_an_unknown_cost_as_none(made, model):
    """A call without a known price has cost something."""
    made.demo.update({"price-input": None, "price-output": None, "url": model.url + "/v1"})
    made.write()
    assert "Status: 200" in chat_by_cgi(made).stdout
    day = json.loads(made.run("stats", "--json"))["days"][-1]
    assert (day["admitted"], day["cost_nano"]) == (1, None)
    row = list(csv.DictReader(io.StringIO(made.run("stats", "--csv"))))[-1]
    assert (row["admitted"], row["cost_nano"]) == ("1", "")
    assert re.search(rf"^{day['day']} +1 +0 +\d+ +\d+ +- +0$", made.run("stats"), re.M)
    made.demo.update({"price-input": "0", "price-output": "0"})
    made.write()
    assert json.loads(made.run("stats", "--json"))["days"][-1]["cost_nano"] == 0, "free is known"
    assert re.search(r" \$0\.00 +0$", made.run("stats"), re.M)


def test_stats_show_what_dry_runs_would_have_refused(made, model):
    made.demo["url"] = model.url + "/v1"
    made.limits["trial"] = {"per": "address", "unit": "calls", "window": "day", "max": "1", "dry-run": "yes"}
    made.limits["roomy"] = {"per": "everyone", "unit": "calls", "window": "day", "max": "9", "dry-run": "yes"}
    made.write()
    for _ in range(3):
        assert "Status: 200" in chat_by_cgi(made).stdout
    stats = json.loads(made.run("stats", "--json"))
    assert stats["days"][-1]["admitted"] == 3
    assert stats["days"][-1]["dry_run"] == {"trial": 2}
    assert [x["dry_run"] for x in stats["limits"] if x["name"] == "roomy"] == [True]
    table = made.run("stats")
    assert re.search(r"^dry run +per +unit +window +would have refused today$", table, re.M)
    assert re.search(r"^trial +address +calls +day +2$", table, re.M)
    assert re.search(r"^roomy +everyone +calls +day +0$", table, re.M)
    assert max(map(len, table.splitlines())) <= 80


def test_stats_show_who_has_asked_most(gate):
    server = gate(limits={"visitor-day": limit("address", "calls", "day", 40)})
    sources = ["127.0.0.2"] * 3 + ["127.0.0.3"]
    for source in sources:
        assert server.chat(source=source).status == 200
    server.site.settled()
    stats = server.site.stats()
    used = [(one["per"], one["calls"]) for one in stats["top_callers"]]
    assert used == [("address", 3), ("address", 1)] and stats["top_counted"] and stats["top_whole"]
    names = until(lambda: (found := re.findall(r"subject=([0-9a-f]{16})", server.log()))[3:] and found, 10, "the log")
    assert [one["name"] for one in stats["top_callers"]] == [names[0], names[3]]
    assert sum(one["cost_nano"] for one in stats["top_callers"]) == stats["totals"]["cost_nano"]
    assert (stats["live"]["codes"]["ok"], sum(stats["live"]["decision_us"]["n"])) == (4, 4)
    out = server.site.run("stats")
    assert re.search(rf"^address +{names[0]} +3 +\d+ +\$\S+$", out, re.M)


def test_stats_without_a_limit_that_would_know_callers(gate):
    server = gate(limits={"visitor-day": {**limit("address", "calls", "hour", 40)}})
    assert server.chat().status == 200
    stats = server.site.stats()
    assert (stats["top_callers"], stats["top_counted"]) == ([], False)


def test_stats_show_the_last_alerts(gate):
    server = gate(limits={"three": limit("everyone", "calls", "day", 3)}, options={})
    for _ in range(3):
        assert server.chat().status == 200
    server.site.settled()
    assert server.chat().code == "site_limit"
    alerts = server.site.stats()["alerts"]
    assert {one["event"] for one in alerts} == {"threshold"}
    assert (alerts[0]["limit"], alerts[0]["percent"], alerts[0]["delivery"]) == ("three", 100, "none")
    assert abs(datetime.datetime.fromisoformat(alerts[0]["time"].replace("Z", "+00:00")).timestamp() - time.time()) < 60
    assert re.search(r"^last alerts, UTC\n\S+ \S+ threshold +three +100%$", server.site.run("stats"), re.M)
    assert server.site.stats()["live"]["refused"]["three"] == 1


def test_stats_show_what_a_pace_has_released(made):
    made.limits["spend"] = {**limit("everyone", "cost", "day", "$12.00"), "pace": "yes"}
    made.write()
    out = made.run("stats")
    shown = float(re.search(r"spend +everyone +cost +day .*\n +released by now +\$([\d.]+)\n", out)[1])
    assert max(map(len, out.splitlines())) <= 80
    every = {one["name"]: one for one in json.loads(made.run("stats", "--json"))["limits"]}
    assert 1 <= shown <= every["spend"]["released"] / 1e9 + 0.01 <= 12.01
    assert every["site-day"]["released"] == every["site-day"]["max"]


def test_stats_show_how_the_bypass_stands(made):
    made.sections["bypass"] = {"unit": "cost", "window": "1h", "max": "$2.00"}
    made.write()
    made.env["PENNYGATE_BYPASS_SECRET"] = "0123456789abcdef0123456789abcdef"
    assert [x for x in json.loads(made.run("stats", "--json"))["limits"] if x["name"] == "bypass"] == [
        {"name": "bypass", "per": "bypass", "unit": "cost", "window": "1h", "used": 0, "reserved": 0, "frees_ms": 0,
         "max": 2000000000, "dry_run": False, "pace": False, "released": 2000000000}]
    assert re.search(r"^bypass +bypass +cost +1h +\$0\.00 +\$2\.00 +\$0\.00$", made.run("stats"), re.M)


def test_stats_show_what_was_paid_before_the_price_was_taken_away(made, model):
    made.demo["url"] = model.url + "/v1"
    made.write()
    assert "Status: 200" in chat_by_cgi(made).stdout
    paid = json.loads(made.run("stats", "--json"))["days"][-1]["cost_nano"]
    assert paid > 0
    made.demo.update({"price-input": None, "price-output": None})
    made.write()
    assert json.loads(made.run("stats", "--json"))["days"][-1]["cost_nano"] == paid


def cgi(site, *arguments, **variables):
    """One CGI request to the program."""
    return subprocess.run(
        [site.program, *arguments], text=True, capture_output=True, timeout=60, stdin=subprocess.DEVNULL,
        env={**site.environment(), "PENNYGATE_CONFIG": str(site.config), "GATEWAY_INTERFACE": "CGI/1.1",
             "REQUEST_METHOD": "GET", "SCRIPT_NAME": "/ai", "PATH_INFO": "/nothing", "REMOTE_ADDR": "192.0.2.9",
             "SERVER_PROTOCOL": "HTTP/1.1", **variables}, check=False, **{} if os.geteuid() else
        {"user": USER, "group": GROUP, "extra_groups": []})


def test_stats_show_what_was_refused(made):
    made.run("pause")
    done = chat_by_cgi(made)
    assert "Status: 503" in done.stdout and "paused" in done.stdout
    day = json.loads(made.run("stats", "--json"))["days"][-1]
    assert day["paused"] == 1 and day["admitted"] == 0
    row = list(csv.DictReader(io.StringIO(made.run("stats", "--csv", "--days", "1"))))[-1]
    assert row["paused"] == "1" and row["day"] == day["day"]
    assert re.search(rf"{day['day']} +0 +0 +0 +0 +\$0\.00 +0", made.run("stats"))


# ---- pause, adopt, clock, maintain ---------------------------------------------------------


def test_pause_and_resume(made):
    assert made.run("pause").startswith("paused")
    assert "paused" in made.run("stats") and ", paused" in made.run("check")
    assert json.loads(made.run("stats", "--json"))["paused"] is True
    assert made.run("pause").startswith("paused")
    assert made.run("resume").startswith("resumed")
    assert json.loads(made.run("stats", "--json"))["paused"] is False


def test_a_copy_that_was_put_back_needs_to_be_adopted(made):
    copy = made.data_file.read_bytes()
    for command in ("pause", "resume", "pause", "resume"):
        made.run(command)
    made.data_file.write_bytes(copy)
    assert "pennygate adopt" in fails(made, 1, "stats")
    assert "pennygate adopt" in fails(made, 1, "resume")
    assert "pennygate adopt" in " ".join(made.run("check", check=False).stdout.split())
    assert "adopted" in made.run("adopt")
    assert "0 faults" in made.run("check")


def test_there_is_nothing_to_adopt_in_a_healthy_store(made):
    made.run("stats")
    files = [made.data_file, made.periods, made.store / "run" / "mark"]
    before = [(path.stat().st_ino, path.read_bytes()) for path in files]
    assert "nothing to adopt" in made.run("adopt")
    assert [(path.stat().st_ino, path.read_bytes()) for path in files] == before


def test_adopt_does_not_mend_what_is_missing(made):
    made.data_file.unlink()
    before = tree(made.store)
    assert "the store is missing" in fails(made, 1, "adopt")
    assert tree(made.store) == before


def test_clock(made):
    assert "the store's time is the clock's" in made.run("clock")
    assert "the store's time is the clock's" in made.run("clock", "reset")
    assert "0 faults" in made.run("check")


def test_maintain_is_silent(made):
    assert made.run("maintain") == made.run("maintain", "--stop") == ""


# ---- started by a web server ---------------------------------------------------------------


def test_cgi_does_not_look_at_arguments(made):
    for arguments in (["pause"], ["-c", "/nowhere"], ["--help"]):
        assert cgi(made, *arguments).stdout.startswith("Status: 404")
    assert json.loads(made.run("stats", "--json"))["paused"] is False


def test_f48_cgi_does_not_take_options_from_a_request(made):
    done = cgi(made, HTTP_PROXY="http://192.0.2.1:1", HTTP_PENNYGATE_SITE_LIMIT="9", QUERY_STRING="pause")
    assert done.stdout.startswith("Status: 404")


def test_cgi_with_an_unknown_override_refuses(made):
    done = cgi(made, PENNYGATE_SITE_LIMITS="9", PATH_INFO="/v1/models")
    assert done.stdout.startswith("Status: 503") and '"configuration"' in done.stdout


# ---- serve ---------------------------------------------------------------------------------


def connects(path):
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
            return True
        except OSError:
            return False


def drains(pid):
    """Whether SIGTERM is caught: until then there is nothing to drain, and it just ends it."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(re.search(r"SigCgt:\s+(\w+)", status)[1], 16) >> (signal.SIGTERM - 1) & 1


class Serving:
    def __init__(self, site, *arguments, path=None, **options):
        options.setdefault("env", site.environment())
        self.process = subprocess.Popen([site.program, "serve", "-c", site.config, *arguments],
                                        stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                        **options)
        until(lambda: connects(path or site.socket) and drains(self.process.pid), 10, "the service")

    def stop(self, sign=signal.SIGTERM):
        self.process.send_signal(sign)
        _, errors = self.process.communicate(timeout=30)
        return self.process.returncode, errors


def test_serve_makes_its_socket_and_stops(made):
    for sign in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
        serving = Serving(made)
        assert mode(made.socket) == 0o660
        other = made.run("serve", check=False)
        assert other.returncode == 1 and "listens" in other.stderr
        status, _ = serving.stop(sign)
        assert status == (-sign if sign == signal.SIGKILL else 0)


def test_serve_on_another_socket(made):
    path = made.directory / "other.sock"
    serving = Serving(made, "--socket", str(path), path=path, stdout=subprocess.PIPE)
    assert serving.process.stdout.readline() == f"listening on {path}\n"
    assert not made.socket.exists()
    assert serving.stop()[0] == 0


def test_serve_without_a_socket(made):
    made.server["socket"] = None
    made.write()
    assert "no socket" in fails(made, 2, "serve")
    made.write("nonsense\n")
    assert "pennygate.conf:1: no such option" in fails(made, 2, "serve")


def test_serve_replaces_no_file(made):
    made.socket.write_text("mine", encoding="ascii")
    assert "no socket" in fails(made, 1, "serve")
    assert made.socket.read_text(encoding="ascii") == "mine"


@ROOT_ONLY
def test_serve_becomes_the_stores_owner(made):
    serving = Serving(made)
    owner = pwd.getpwnam(USER).pw_uid
    until(lambda: pathlib.Path(f"/proc/{serving.process.pid}/status").read_text(encoding="ascii")
          .split("Uid:")[1].split()[:4] == [str(owner)] * 4, 10, "the change of user")
    assert serving.stop()[0] == 0


def test_what_a_process_inherits_is_made_safe(made):
    serving = Serving(
        made, preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM]))
    pid = serving.process.pid
    limits = pathlib.Path(f"/proc/{pid}/limits").read_text(encoding="ascii")
    assert re.search(r"Max core file size +0 +0 ", limits)
    if os.geteuid() == 0:
        assert pathlib.Path(f"/proc/{pid}/environ").stat().st_uid == 0, "its memory is not to be read"
    assert serving.stop()[0] == 0, "an inherited mask must not hold SIGTERM back"
