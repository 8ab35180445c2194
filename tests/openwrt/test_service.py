"""The service: what procd is told, the store that is made once, and what follows the rest of the router:
the clock, sysupgrade, an installation."""
import json
import os
import re
import shutil
import signal
import subprocess

import pytest

from harness import USER, until
from router import FEED, RECIPE, ROOT, STUB

# `init` as on a file system that LMDB cannot map, where the configuration says commit.
NO_COMMIT = '''
case "$*" in
*check) exit 0 ;;
*init*)
    if grep -q "durability = 'commit'" "$2"; then echo 'the file system cannot' >&2; exit %d; fi
    mkdir -p %s && touch %s/copy
    exit 0 ;;
esac'''


def inits(router):
    return [call for call in router.calls() if call[0] == "pennygate" and " init " in call[1]]


# ---- procd ----

def test_nothing_starts_as_it_is_shipped(router):
    calls = router.init("start")
    assert router.done.returncode == 0
    assert {call[0] for call in calls} == {"procd_add_reload_trigger", "procd_add_validation", "validate"}
    assert not router.conf.exists() and not router.made.exists() and not router.store.exists()


def test_what_procd_is_told(router):
    router.configure()
    router.init("start")
    told = router.params()
    assert told["command"] == [str(router.program), "serve"]
    assert told["user"] == told["group"] == ["pennygate"]
    assert told["no_new_privs"] == told["stderr"] == told["stdout"] == ["1"]
    assert told["respawn"] == ["3600", "5", "0"] and told["limits"] == ["core=0"]
    assert int(told["term_timeout"][0]) > 20  # the default of stop-timeout
    # A change is taken up by the program itself: an instance that differs would be restarted. Another
    # program is the one thing that it cannot take up; apk stops no service that it upgrades.
    assert told["file"] == [str(router.program)] and "reload_signal" not in told
    assert not router.called("procd_add_jail")
    assert router.called("procd_add_reload_trigger") == [["pennygate"]]
    assert len(router.called("procd_add_validation")) == 1
    assert [words[1] for words in router.called("validate")] == ["pennygate", "alerts", "model", "limit"]


def test_in_a_jail_there_is_all_that_it_needs(router):
    router.script("sbin/ujail", "#!/bin/sh\n")
    router.configure()
    router.init("start")
    assert router.called("procd_add_jail") == [["pennygate", "procfs"]]
    [shown] = [words for words in router.called("procd_add_jail_mount") if "/lib" in words]
    for needed in ("/usr/lib", "/etc/ssl", "/etc/hosts", "/etc/pennygate", "/var/run/pennygate"):
        assert f"{router.root}{needed}" in shown
    own = ("/etc/pennygate/store", "/var/run/pennygate/run", "/var/run/pennygate-web")
    assert router.called("procd_add_jail_mount_rw") == [[f"{router.root}{path}" for path in own]]
    capabilities = json.loads(open(router.params()["capabilities"][0], encoding="ascii").read())
    assert set(capabilities) == {"bounding", "effective", "ambient", "permitted", "inheritable"}
    assert not any(capabilities.values())


@pytest.mark.parametrize("leads_to, follows", [("tmp/resolv.conf.d/resolv.conf.auto", True),
                                               ("tmp/resolv.conf", False)])
def test_a_jail_is_begun_anew_with_another_resolver(router, leads_to, follows):
    """It has the file that /etc/resolv.conf led to at its start. netifd replaces its own with each
    lease; dnsmasq's says 127.0.0.1 for ever."""
    (router.root / leads_to).write_text("nameserver 192.0.2.53\n", encoding="ascii")
    (router.root / "etc/resolv.conf").symlink_to(router.root / leads_to)
    router.configure()
    trigger = ["interface.*", "2000", f"{router.root}/etc/init.d/pennygate", "reload"]
    router.init("start")
    assert not router.called("procd_add_raw_trigger") and not router.called("procd_append_param")
    router.script("sbin/ujail", "#!/bin/sh\n")
    router.init("start")
    assert router.called("procd_append_param") == [["file", f"{router.root}/etc/resolv.conf"]]
    assert router.called("procd_add_raw_trigger") == ([trigger] if follows else [])


def test_a_jail_can_stand_before_there_is_a_store(router):
    """ujail mounts what is there."""
    router.script("sbin/ujail", "#!/bin/sh\n")
    router.wrap('case "$*" in *init*) exit 1 ;; esac')
    router.configure()
    router.init("start")
    assert router.store.is_dir() and router.store.owner() == USER
    router.wrap("")
    router.init("reload")
    assert router.pennygate("check").returncode == 0


# ---- the store ----

def test_the_store_is_made_once(router):
    router.configure()
    router.init("start")
    assert len(inits(router)) == 1 and router.made.exists()
    assert router.pennygate("check").returncode == 0
    router.init("reload")
    assert not inits(router)


@pytest.mark.parametrize("lost", ["rm -rf store", "rm store/data.mdb", "rm -rf store secret"])
def test_a_store_that_was_lost_does_not_come_back(router, lost):
    router.configure()
    router.init("start")
    subprocess.run(lost, shell=True, cwd=router.state, check=True)
    router.init("start")
    assert not inits(router)
    assert router.params()["command"][-1] == "serve"  # it answers 503
    assert router.pennygate("check").returncode == 1


def test_the_note_is_written_before_the_store(router):
    """Power may fail in between."""
    router.wrap(f'case "$*" in *init*) ls "{router.made}" >>"{router.root}/seen"; kill -9 $PPID ;; esac')
    router.configure()
    router.init("start")
    assert (router.root / "seen").read_text(encoding="utf-8").strip() == str(router.made)
    router.wrap("")
    router.init("start")
    assert not inits(router)


@pytest.mark.parametrize("left", ["periods", "data.mdb lock.mdb periods", ""])
def test_an_init_that_was_cut_short_is_ended(router, left):
    router.configure()
    router.init("start")
    for path in router.store.iterdir():
        if path.is_file() and path.name not in left.split():
            path.unlink()
    (router.store / "making").touch(mode=0o600)
    shutil.chown(router.store / "making", USER)
    router.init("start")
    # what is all there is opened by `check` before that, and so is made
    assert len(inits(router)) == ("data.mdb" not in left) and router.made.exists()
    assert not (router.store / "making").exists()
    assert router.pennygate("check").returncode == 0
    router.init("start")
    assert not inits(router)


def test_an_init_that_made_nothing_is_tried_again(router):
    """As without a clock; the service runs meanwhile, and answers 503."""
    router.wrap('case "$*" in *init*) echo "pennygate: the clock is not set" >&2; exit 1 ;; esac')
    router.configure()
    router.init("start")
    assert not router.made.exists() and "the clock is not set" in router.log()
    assert router.params()["command"][-1] == "serve"
    router.wrap("")
    router.init("reload")
    assert router.made.exists() and router.pennygate("check").returncode == 0


@pytest.mark.parametrize("file", ["data.mdb", "periods", "copy", "lease"])
def test_an_init_that_broke_off_is_not(router, file):
    router.wrap(f'case "$*" in *init*) mkdir "{router.store}"; : >"{router.store}/{file}"; exit 1 ;; esac')
    router.configure()
    router.init("start")
    assert router.made.exists()
    router.init("start")
    assert not inits(router)


def test_local_time_is_that_of_the_router(router):
    (router.root / "etc/TZ").write_text("CET-1CEST,M3.5.0,M10.5.0/3\n", encoding="ascii")
    router.configure(main={"timezone": "local"})
    router.wrap(f'case "$*" in *init*) echo "$TZ" >"{router.root}/zone" ;; esac')
    router.init("start")
    assert (router.root / "zone").read_text(encoding="ascii") == "CET-1CEST,M3.5.0,M10.5.0/3\n"


def test_auto_is_commit_where_the_file_system_can(router):
    router.configure(main={"durability": "auto"})
    router.init("start")
    assert "durability = 'commit'" in router.conf.read_text(encoding="utf-8")
    assert router.uci_get("pennygate.main.durability") == "commit"


def test_auto_is_lease_where_it_cannot(router):
    router.wrap(NO_COMMIT % (cannot_hold(), router.store, router.store))
    router.configure(main={"durability": "auto"})
    router.init("start")
    assert "durability = 'lease'" in router.conf.read_text(encoding="utf-8")
    assert router.uci_get("pennygate.main.durability") == "lease"
    assert len(inits(router)) == 2 and router.made.exists()
    router.init("start")
    assert not inits(router) and "durability = 'lease'" in router.conf.read_text(encoding="utf-8")


def unmappable(router):
    """Flash as jffs2, for the real program."""
    library = router.root / "jffs2.so"
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", library, ROOT / "tests/e2e/jffs2_shim.c", "-ldl"],
                   check=True)
    router.wrap(f'export LD_PRELOAD="{library}"')


def lose_power(router):
    """What is on tmpfs is gone, and the copy in flash is all that sysupgrade brings along."""
    shutil.rmtree(router.root / "var/run")
    (router.root / "var/run").mkdir()


def test_auto_by_the_program_itself_where_flash_cannot_be_mapped(router):
    unmappable(router)
    router.configure(main={"durability": "auto"})
    router.init("start")
    assert router.uci_get("pennygate.main.durability") == "lease"
    assert sorted(path.name for path in router.store.iterdir()) == ["copy", "lease", "periods"]
    assert router.pennygate("check").returncode == 0
    assert router.errors() == ""  # nothing that LuCI would call a fault
    lose_power(router)
    router.init("boot")
    assert not inits(router) and router.pennygate("check").returncode == 0


def test_auto_once_more_is_what_the_store_is(router):
    """As where LuCI takes back what was set, and with it what the first start wrote down."""
    unmappable(router)
    router.configure(main={"durability": "auto"})
    router.init("start")
    router.configure(main={"durability": "auto"})
    router.init("reload")
    assert router.uci_get("pennygate.main.durability") == "lease"
    assert router.pennygate("check").returncode == 0


@pytest.mark.parametrize("durability, other", [("commit", "lease"), ("lease", "commit")])
def test_a_store_is_of_one_durability(router, durability, other):
    """With the other one every request would be a 503."""
    router.configure(main={"durability": durability})
    router.init("start")
    router.configure(main={"durability": other})
    router.init("reload")
    assert f"main.durability is {other}, and the store was made with {durability}" in router.errors()
    assert router.pennygate("check").returncode == 0


@pytest.mark.parametrize("lost", ["rm -rf store", "rm -rf store secret", "rm store/copy", "rm store/lease"])
@pytest.mark.parametrize("durability", ["lease", "auto"])
def test_a_copy_that_was_lost_does_not_come_back(router, durability, lost):
    unmappable(router)
    router.configure(main={"durability": "auto"})
    router.init("start")
    router.pennygate("maintain", "--stop")
    lose_power(router)
    subprocess.run(lost, shell=True, cwd=router.state, check=True)
    router.configure(main={"durability": durability})
    for _ in range(2):
        router.init("boot")
        assert not inits(router)
        assert router.params()["command"][-1] == "serve"  # it answers 503
        assert router.pennygate("check").returncode == 1


def test_a_store_is_made_anew_as_the_readme_says(router):
    [recipe] = re.findall(r"^    service pennygate stop\n(.*?)^    service pennygate start\n",
                          (FEED / "README.md").read_text(encoding="utf-8"), re.M | re.S)
    unmappable(router)
    router.configure(main={"durability": "auto"})
    router.init("start")
    router.init("stop")
    subprocess.run(re.sub(r"(?<= )/(?=etc|var)", f"{router.root}/", recipe), shell=True, check=True)
    router.init("start")
    assert len(inits(router)) == 1 and router.made.exists()
    assert router.pennygate("check").returncode == 0


@pytest.mark.parametrize("durability, status", [("commit", None), ("auto", 1)])
def test_lease_is_taken_for_no_other_reason(router, durability, status):
    router.wrap(NO_COMMIT % (status or cannot_hold(), router.store, router.store))
    router.configure(main={"durability": durability})
    router.init("start")
    assert router.uci_get("pennygate.main.durability") == durability
    assert len(inits(router)) == 1 and not router.made.exists()


def test_a_choice_that_cannot_be_written_down_makes_no_store(router):
    """It would be another one after the next start."""
    (router.root / "etc/config/.full").touch()
    router.wrap(NO_COMMIT % (cannot_hold(), router.store, router.store))
    router.configure(main={"durability": "auto"})
    router.init("start")
    assert len(inits(router)) == 1 and not router.made.exists()


def test_the_status_for_it_is_the_programs():
    header = (ROOT / "gateway/cli.h").read_text(encoding="utf-8")
    assert int(re.search(r"^    CLI_UNABLE = (\d+)", header, re.M)[1]) == cannot_hold()


def cannot_hold():
    script = (RECIPE / "files/pennygate.init").read_text(encoding="utf-8")
    return int(re.search(r"^CANNOT_HOLD=(\d+)$", script, re.M)[1])


# ---- the rest of the router ----

@pytest.mark.parametrize("action, made, reloads", [("stratum", False, True), ("stratum", True, False),
                                                   ("step", False, False), ("unsync", False, False)])
def test_the_time_is_news_where_a_store_waits_for_it(router, action, made, reloads):
    router.script("etc/init.d/pennygate", '#!/bin/sh\nprintf "init\\t%s\\n" "$*" >>"$RECORD"\n')
    if made:
        router.state.mkdir(exist_ok=True)
        router.made.touch()
    router.shell(router.root / "etc/hotplug.d/ntp/60-pennygate", ACTION=action)
    assert (["reload"] in router.called("init")) == reloads


def test_a_router_where_it_is_not_enabled_hears_nothing(router):
    router.script("etc/init.d/pennygate", '#!/bin/sh\n[ "$1" != enabled ] || exit 1\necho "init\t$1" >>"$RECORD"\n')
    router.shell(router.root / "etc/hotplug.d/ntp/60-pennygate", ACTION="stratum")
    assert not router.called("init")


def sysupgrade(router, **asked):
    """What it does before it packs; `asked` is how it tells its own parts what it was called for."""
    router.script("etc/init.d/pennygate", '#!/bin/sh\nprintf "init\\t%s\\n" "$*" >>"$RECORD"\n')
    done = router.shell("-c", f"""
        sysupgrade_init_conffiles=other
        other() {{ echo other; }}
        . {router.root}/lib/upgrade/pennygate.sh
        for f in $sysupgrade_init_conffiles; do $f /tmp/list; done""", **asked)
    assert done.stdout == "other\n" and done.stderr == "" and done.returncode == 0


@pytest.mark.parametrize("durability, copies", [("lease", True), ("commit", False), ("auto", False)])
def test_for_a_backup_what_is_in_memory_is_copied(router, durability, copies):
    router.configure(main={"durability": durability})
    sysupgrade(router, CONF_BACKUP="/tmp/backup.tgz")
    assert (["maintain --stop"] in router.called("pennygate")) == copies
    assert not router.called("init")  # it goes on


def test_for_a_list_of_what_is_kept_nothing_is_done(router):
    router.configure(main={"durability": "lease"})
    sysupgrade(router, CONF_BACKUP_LIST="1")
    assert router.calls() == []


@pytest.mark.parametrize("ends_after, waits", [(0, 0), (3, 3), (1000, 31)])
@pytest.mark.parametrize("durability", ["lease", "commit"])
def test_for_an_upgrade_it_is_stopped_and_has_ended(router, durability, ends_after, waits):
    """The charges of what it would still admit, or what it writes, would not all be packed."""
    router.configure(main={"durability": durability})
    (router.root / "bin/sleep").unlink()
    router.script("bin/sleep", STUB)
    (router.root / "bin/pidof").unlink()
    runs = f'[ "$1" = pennygate ] && [ "$(grep -c sleep "$RECORD")" -lt {ends_after} ]'
    router.script("bin/pidof", f"#!/bin/sh\n{runs}\n")
    sysupgrade(router)
    assert router.calls()[0] == ["init", "stop"]
    assert router.called("sleep") == [["1"]] * waits


@pytest.mark.parametrize("server, copies", [("uhttpd", True), ("lighttpd", False)])
def test_what_is_in_memory_is_copied_before_it_is_disabled(router, server, copies):
    """procd knows of no stop then. What serves behind lighttpd copies by itself as it ends."""
    router.configure(main={"server": server, "durability": "lease"})
    router.init("start")
    copy = router.store / "copy"
    before = copy.stat().st_ino
    router.configure(main={"server": server, "durability": "lease", "enabled": "0"})
    router.init("reload")
    assert (copy.stat().st_ino != before) == copies
    assert not router.conf.exists() and not (router.run_directory / "cgi").is_symlink()


@pytest.mark.parametrize("there, chosen, server", [
    (["lighttpd"], "", "lighttpd"), (["uhttpd"], "", "uhttpd"), (["lighttpd", "uhttpd"], "", "lighttpd"),
    ([], "", ""), (["lighttpd", "uhttpd"], "uhttpd", "uhttpd"), (["uhttpd"], "lighttpd", "lighttpd")])
def test_the_server_is_the_one_that_is_there(router, there, chosen, server):
    for name in there:
        router.script(f"usr/sbin/{name}", "#!/bin/sh\n")
    router.configure(main={"server": chosen} if chosen else {})
    for _ in range(2):  # again after each sysupgrade
        for name in ("60-pennygate-lighttpd", "61-pennygate-uhttpd"):
            assert router.shell(router.root / "etc/uci-defaults" / name).returncode == 0
        assert router.uci_get("pennygate.main.server") == server


@pytest.mark.skipif(os.geteuid() != 0, reason="another user than the tests' own is needed")
def test_what_faces_the_web_is_not_roots(router):
    router.configure()
    router.init("start")
    assert router.root.joinpath("var/run/pennygate-web").owner() == USER
    assert router.store.owner() == USER
    for path in (router.state, router.run_directory, router.run_directory / "a", router.conf.resolve()):
        assert path.owner() == "root" and path.stat().st_mode & 0o022 == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="another user than the tests' own is needed")
@pytest.mark.parametrize("server", ["uhttpd", "lighttpd"])
def test_a_store_that_root_put_back_is_the_users_again(router, server):
    """A program that uhttpd starts becomes whoever has the store: it would stay root."""
    router.configure(main={"server": server})
    router.init("start")
    beside = router.state / "key"
    beside.touch(mode=0o600)
    (router.store / "link").symlink_to(beside)
    subprocess.run(["chown", "-Rh", "0:0", router.store, router.state / "secret"], check=True)
    router.init("boot")
    there = [router.state / "secret", router.store, *(path for path in router.store.iterdir() if not path.is_symlink())]
    assert len(there) > 3 and {path.owner() for path in there} == {USER}
    assert {path.owner() for path in (router.state, router.made, beside)} == {"root"}
    assert router.pennygate("check").returncode == 0


def test_maintain_runs_until_it_is_told_to_stop(router):
    router.configure(main={"server": "uhttpd"})
    router.init("start")
    command = router.params()["command"]
    process = subprocess.Popen(command, env=router.environment(), cwd=router.root, stdout=subprocess.DEVNULL)
    try:
        until(lambda: ["maintain"] in router.called("pennygate"), 10, "maintain")
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.wait()


def test_no_file_of_the_feed_goes_beyond_the_margin():
    for path in FEED.rglob("*"):
        if path.is_file() and "luci" not in path.parts and path.suffix != ".md":
            for n, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                assert len(line.expandtabs(4)) <= 120, f"{path}:{n}"
