"""The whole way: what the init script writes is what lighttpd, and the stand-in for uhttpd, run on, in
front of the practice model."""
import contextlib
import json
import os
import shutil
import subprocess
import sys
import time

import pytest

from harness import CHAT, Call, accepts, free_port, until
from router import GROUP, KEY, ROOT, USER

AS_USER = {"user": USER, "group": GROUP, "extra_groups": []} if GROUP else {}
QUESTION = json.dumps({"model": "demo", "messages": [{"role": "user", "content": "Why is the sea salt?"}]}).encode()


@contextlib.contextmanager
def running(router, *command, ready, **options):
    with open(router.root / "output", "ab") as output:
        process = subprocess.Popen(command, env=router.environment(), cwd=router.root, stdin=subprocess.DEVNULL,
                                   stdout=output, stderr=output, **options)
    try:
        until(lambda: ready() or process.poll() is not None, 10, "its start")
        assert process.poll() is None, (router.root / "output").read_text(encoding="utf-8", errors="replace")
        yield process
    finally:
        process.terminate()
        process.wait(30)


@contextlib.contextmanager
def serve(router):
    """What procd would start, as the user that it would be."""
    socket = router.root / "var/run/pennygate-web/pennygate.sock"
    with running(router, *router.params()["command"], ready=socket.exists, **AS_USER) as process:
        yield process


@contextlib.contextmanager
def lighttpd(router):
    port = free_port()
    path = router.root / "lighttpd.conf"
    user = f'server.username = "{USER}"\nserver.groupname = "{GROUP}"\n' if GROUP else ""
    path.write_text(f'server.port = {port}\nserver.bind = "127.0.0.1"\n{user}'
                    f'include "{router.root}/etc/lighttpd/lighttpd.conf"\n', encoding="utf-8")
    with running(router, shutil.which("lighttpd"), "-D", "-f", path, ready=lambda: accepts(port)):
        yield port


@contextlib.contextmanager
def uhttpd(router):
    """As root, if the tests are: so it is on a router."""
    text = (router.root / "etc/config/uhttpd").read_text(encoding="utf-8")
    path = router.root / "uhttpd.section"
    path.write_text("config uhttpd" + text.partition("config uhttpd 'pennygate'")[2], encoding="utf-8")
    port = free_port()
    with running(router, sys.executable, ROOT / "tests/e2e/uhttpd.py", path, str(port), ready=lambda: accepts(port)):
        yield port


WEB = {"lighttpd": lighttpd, "uhttpd": uhttpd}


def ask(port, mount, body=QUESTION):
    return Call(port, "POST", mount + CHAT, body, [("Content-Type", "application/json")]).answer()


def used(router):
    stats = json.loads(router.pennygate("stats", "--json").stdout)
    return next(one["used"] for one in stats["limits"] if one["name"] == "site-day")


@pytest.mark.parametrize("mount", ["/ai", "/a.i/b~c"])
def test_through_lighttpd(router, model, mount):
    router.configure(main={"mount": mount}, model={"url": model.url + "/v1", "system_prompt": "It's \"terse\".\nVery."})
    router.init("start")
    assert ["restart"] in router.called("lighttpd")
    with serve(router), lighttpd(router) as port:
        answer = ask(port, mount)
        assert answer.status == 200, answer.body
        call = model.stats()["last"]
        assert {name.lower(): value for name, value in call["headers"].items()}["authorization"] == f"Bearer {KEY}"
        assert call["body"]["messages"][0] == {"role": "system", "content": "It's \"terse\".\nVery.\n"} or \
            call["body"]["messages"][0]["content"].rstrip() == "It's \"terse\".\nVery."
        assert ask(port, mount.replace(".", "x") + "y").status == 404
    assert used(router) == 1


def test_a_change_is_taken_up_by_the_process_that_runs(router, model):
    router.configure(model={"url": model.url + "/v1"})
    router.init("start")
    with serve(router) as process, lighttpd(router) as port:
        assert ask(port, "/ai").status == 200
        router.configure(model={"url": model.url + "/v1", "key": "sk-another"},
                         limits={"tight": {"per": "everyone", "unit": "calls", "window": "day", "max": "2"}})
        router.init("reload")
        assert ask(port, "/ai").status == 200
        assert "sk-another" in json.dumps(model.stats()["last"]["headers"])
        assert ask(port, "/ai").code == "site_limit"
        router.configure(model={"url": model.url + "/v1", "max_output_tokens": "0"})
        router.init("reload")
        assert ask(port, "/ai").code == "site_limit"
        assert process.poll() is None


@pytest.mark.parametrize("server", ["lighttpd", "uhttpd"])
def test_what_was_in_memory_is_there_after_a_boot(router, model, server):
    """With durability lease, after a stop as init scripts are stopped before a router goes down."""
    (router.root / "etc/config/uhttpd").touch()
    router.configure(main={"server": server, "durability": "lease"}, model={"url": model.url + "/v1"})
    mount = "/ai" if server == "lighttpd" else "/cgi-bin/pennygate"
    for boot in range(1, 4):
        router.init("boot")
        assert router.conf.exists(), router.log()
        with serve(router) if server == "lighttpd" else contextlib.nullcontext(), WEB[server](router) as port:
            assert ask(port, mount).status == 200
            router.init("stop")
        shutil.rmtree(router.root / "var/run")  # a tmpfs
        (router.root / "var/run").mkdir()
    router.init("boot")
    assert used(router) == boot
    assert router.called("pennygate") and not [call for call in router.calls() if " init " in " ".join(call)]


def test_without_a_store_it_says_503_and_stays(router, model):
    """No clock, at the first start: and then there is one."""
    router.wrap('case "$*" in *init*) exit 1 ;; esac')
    router.configure(model={"url": model.url + "/v1"})
    router.init("start")
    with serve(router) as process, lighttpd(router) as port:
        assert ask(port, "/ai").code == "meter_unavailable"
        router.wrap("")
        router.init("reload")
        until(lambda: ask(port, "/ai").status == 200, 10, "an answer")
        assert process.poll() is None


@pytest.mark.parametrize("durability", ["commit", "lease"])
def test_a_router_without_a_clock(router, model, durability):
    """It starts in 1970; then it hears of the time."""
    shutil.copy(ROOT / "build/clock-shim.so", router.root / "shim.so")
    clock = router.root / "clock"
    clock.write_text(str(-int(time.time() * 1000) + 60000), encoding="ascii")
    router.wrap(f"export LD_PRELOAD={router.root}/shim.so CLOCK_SHIM={clock}")
    router.configure(main={"durability": durability}, model={"url": model.url + "/v1"})
    router.init("boot")
    assert not router.made.exists() and "clock" in router.log()
    with serve(router) as process, lighttpd(router) as port:
        assert ask(port, "/ai").status == 503
        clock.write_text("0", encoding="ascii")
        router.init("reload")  # as hotplug.d/ntp does
        assert router.made.exists(), router.log()
        until(lambda: ask(port, "/ai").status == 200, 10, "an answer")
        assert process.poll() is None


def test_through_uhttpd(router, model):
    (router.root / "etc/config/uhttpd").write_text("config uhttpd 'main'\n\toption home '/www'\n", encoding="utf-8")
    router.configure(main={"server": "uhttpd"}, model={"url": model.url + "/v1"})
    router.init("start")
    assert router.params()["command"] == [f"{router.root}/usr/libexec/pennygate-maintain"]
    assert ["reload"] in router.called("uhttpd")
    with uhttpd(router) as port:
        answer = ask(port, "/cgi-bin/pennygate")
        assert answer.status == 200, answer.body
        assert used(router) == 1
        if os.geteuid() == 0:
            assert {path.owner() for path in router.store.rglob("*")} == {USER}
        router.init("stop")
        assert ["maintain --stop"] in [[" ".join(words[0].split()[-2:])] for words in router.called("pennygate")]
        assert ask(port, "/cgi-bin/pennygate").status == 404
        router.init("start")
        assert ask(port, "/cgi-bin/pennygate").status == 200
    assert used(router) == 2


def test_the_section_of_uhttpd(router):
    path = router.root / "etc/config/uhttpd"
    path.write_text("config uhttpd 'main'\n\tlist listen_http '0.0.0.0:80'\n\toption home '/www'\n", encoding="utf-8")
    before = path.read_text(encoding="utf-8")
    router.configure(main={"server": "uhttpd", "port": "8088"})
    router.init("start")
    assert router.uci_get("uhttpd.pennygate.listen_http") == "0.0.0.0:8088 [::]:8088"
    assert router.uci_get("uhttpd.main.listen_http") == "0.0.0.0:80"
    assert int(router.uci_get("uhttpd.pennygate.script_timeout")) > 120  # total-timeout
    router.shell("-c", "uci set uhttpd.pennygate.cert=/etc/mine; uci add_list uhttpd.pennygate.listen_https=[::]:8443")
    router.init("reload")
    assert not router.called("uhttpd")  # nothing to do
    router.configure(main={"server": "uhttpd", "port": "8089"})
    router.init("reload")
    assert router.uci_get("uhttpd.pennygate.listen_http") == "0.0.0.0:8089 [::]:8089"
    assert router.uci_get("uhttpd.pennygate.cert") == "/etc/mine"
    router.configure(main={"enabled": "0"})
    router.init("reload")
    assert ["reload"] in router.called("uhttpd")
    assert path.read_text(encoding="utf-8").split() == before.split()


def test_lighttpd_is_restarted_only_for_a_change(router):
    router.configure()
    router.init("start")
    made = router.root / "etc/lighttpd/conf.d/45-pennygate.conf"
    assert '"^/ai(/|$)"' in made.read_text(encoding="utf-8")
    router.init("reload")
    assert not router.called("lighttpd")
    router.configure(main={"mount": "/air"})
    router.init("reload")
    assert router.called("lighttpd") == [["restart"]]
    assert '"^/air(/|$)"' in made.read_text(encoding="utf-8") and '( "/air" =>' in made.read_text(encoding="utf-8")
    router.init("unmount")
    assert not made.exists() and router.called("lighttpd") == [["restart"]]


@pytest.mark.parametrize("mount", ["/a'b", "/a#b", '/a"b', "/a&b", "relative", "/", "/ai/"])
def test_a_mount_with_a_fault_reaches_no_server(router, mount):
    router.configure()
    router.init("start")
    made = router.root / "etc/lighttpd/conf.d/45-pennygate.conf"
    before = made.read_text(encoding="utf-8")
    router.configure(main={"mount": mount})
    router.init("reload")
    assert not router.called("lighttpd") and made.read_text(encoding="utf-8") == before
    assert router.params()["command"][-1] == "serve"


@pytest.mark.parametrize("port", ["65536", "-1", "+80", " 80", "0", "080", "4294967376"])
def test_a_port_with_a_fault_reaches_no_server(router, port):
    (router.root / "etc/config/uhttpd").touch()
    router.configure(main={"server": "uhttpd"})
    router.init("start")
    router.configure(main={"server": "uhttpd", "port": port})
    router.init("reload")
    assert not router.called("uhttpd") and router.uci_get("uhttpd.pennygate.listen_http") == "0.0.0.0:8080 [::]:8080"


def test_lighttpd_is_left_as_it_was_if_it_would_not_start(router):
    (router.root / "bin/lighttpd").unlink()
    router.script("bin/lighttpd", "#!/bin/sh\necho 'no such module' >&2\nexit 1\n")
    router.configure()
    router.init("start")
    assert not router.called("lighttpd") and "no such module" in router.log()
    assert not list((router.root / "etc/lighttpd/conf.d").iterdir())
    assert router.params()["command"][-1] == "serve"


def test_the_other_server_is_let_go(router):
    (router.root / "etc/config/uhttpd").write_text("config uhttpd 'main'\n", encoding="utf-8")
    made = router.root / "etc/lighttpd/conf.d/45-pennygate.conf"
    router.configure()
    router.init("start")
    router.configure(main={"server": "uhttpd"})
    router.init("reload")
    assert not made.exists() and router.uci_get("uhttpd.pennygate.home")
    router.configure()
    router.init("reload")
    assert made.exists() and not router.uci_get("uhttpd.pennygate")
    assert not os.path.lexists(router.run_directory / "cgi")


@pytest.mark.parametrize("server", ["lighttpd", "uhttpd"])
def test_a_server_that_is_not_there_is_told(router, server):
    shutil.rmtree(router.root / "etc/lighttpd")
    (router.root / "etc/init.d/uhttpd").unlink()
    router.configure(main={"server": server})
    router.init("start")
    assert f"{server} is not installed" in router.log()
