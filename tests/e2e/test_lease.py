"""Durability lease: the store is live on tmpfs, and what a power loss takes is never what everyone
has used. Power is lost here by SIGKILL for all, and everything that the run directory has is gone."""
import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile

import pytest

from harness import MODES, ROOT, USER, Site, alive, limit, until
from test_crash import kill_gateways

FIGURES = {"prompt_tokens": 10, "completion_tokens": 20}
SITE_MAX = 640  # 1/32 is granted ahead: 20
AHEAD = SITE_MAX // 32
LIMITS = {"visitor-day": limit("address", "calls", "day", 100000),
          "site-day": limit("everyone", "calls", "day", SITE_MAX)}


class Leased(Site):
    """Its run directory stands for tmpfs, its store for flash."""

    def __init__(self, model, limits=None, **options):
        super().__init__(model, limits=limits or LIMITS, options={"durability": "lease"}, **options)
        self.run_directory = self.directory / "run"
        self.site["run-directory"] = self.run_directory
        self.rows = self.run_directory / "store"
        self.data_file = self.rows / "data.mdb"
        self.copy, self.lease = self.store / "copy", self.store / "lease"
        self.write()

    def lose_power(self, *servers):
        for server in servers:
            pids = server.gateways()
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):  # a CGI process may just have ended
                    os.kill(pid, signal.SIGKILL)
            until(lambda pids=pids: not any(map(alive, pids)), 5, "the end of the killed")
            server.stop()
        self.forget()

    def forget(self):
        """The boot after it finds an empty tmpfs."""
        shutil.rmtree(self.run_directory)
        self.run_directory.mkdir(mode=0o700)
        self.own(self.run_directory)

    def new_boot(self):
        """As far as the rows tell: those of another boot are none."""
        (self.rows / "boot").write_bytes(bytes(16))


@pytest.fixture
def leased(model):
    made = []

    def make(init=True, **options):
        made.append(Leased(model, **options))
        return made[-1].init() if init else made[-1]

    model.set(**FIGURES)
    yield make
    for one in made:
        one.close()


def asked(server, n):
    for _ in range(n):
        assert server.chat().status == 200


@pytest.mark.parametrize("mode", MODES)
def test_power_is_lost_and_nothing_is_forgotten(leased, mode):
    place = leased()
    server = place.start(mode)
    asked(server, 5)
    place.settled()
    assert place.used("site-day") == 5
    place.lose_power(server)
    server = place.start(mode)
    # It restores, and not a command; who finds it at that hears 503.
    until(lambda: server.get("/status").status == 200, 5, "the restored store")
    used = place.used("site-day")
    assert 5 <= used <= 5 + AHEAD + 1
    asked(server, 1)
    assert place.used("site-day") == used + 1
    place.lose_power(server)
    assert used + 1 <= place.used("site-day") <= used + 1 + AHEAD + 1
    assert "event=restored" in server.log() or mode != "external"


@pytest.mark.parametrize("mode", ["spawned", "external"])
def test_a_clean_stop_wastes_nothing(leased, mode):
    place = leased()
    server = place.start(mode)
    asked(server, 5)
    server.stop()
    place.lose_power()
    assert place.used("site-day") == 5
    day = place.day()
    assert (day["admitted"], day["settled"]) == (5, 5)


def test_cgi_without_cron_is_stopped_by_maintain(leased):
    place = leased()
    server = place.start("cgi")
    asked(server, 3)
    server.at_rest()
    place.run("maintain", "--stop")
    place.lose_power(server)
    assert place.used("site-day") == 3


def test_orders_are_on_flash_before_they_succeed(leased):
    place = leased()
    token = place.run("keys", "add", "anna").strip()
    password = place.run("dashboard-password").strip()
    place.run("pause")
    place.lose_power()
    assert place.stats_of("paused")
    assert "anna" in place.run("keys", "list")
    place.run("resume")
    place.lose_power()
    server = place.start()
    answer = server.chat(headers=[("Authorization", f"Bearer {token}")])
    assert answer.status == 200
    assert password
    asked(server, 3)
    place.settled()
    assert "forgiven" in place.run("forgive", "everyone")
    place.lose_power(server)
    assert place.used("site-day") == 0
    place.run("keys", "revoke", "anna")
    place.run("dashboard-password", "remove")
    place.lose_power()
    assert "no keys" in place.run("keys", "list")
    assert "no password" in place.run("dashboard-password", "remove")


def test_an_order_that_cannot_be_copied_says_so(leased):
    place = leased()
    for n in range(16):
        (place.store / f"copy.new{n}").mkdir()
    done = place.run("pause", check=False)
    assert done.returncode == 1 and "only holds until a power loss" in done.stderr, done.stderr
    assert place.stats_of("paused"), "it holds for now"
    place.lose_power()
    assert not place.stats_of("paused")


def test_a_copy_that_was_rolled_back_is_adopted_or_refused(leased):
    place = leased()
    server = place.start()
    asked(server, 2)
    server.stop()
    older = place.copy.read_bytes()
    server = place.start()
    asked(server, 2)
    server.stop()
    place.lose_power()
    place.copy.write_bytes(older)
    server = place.start()
    answer = server.chat()
    assert (answer.status, answer.code) == (503, "meter_unavailable")
    assert "older than what was last committed" in server.log()
    server.stop()
    assert "adopted" in place.run("adopt")
    place.lose_power()
    assert place.used("site-day") == 2


@pytest.mark.parametrize("name", ["lease", "copy", "periods"])
@pytest.mark.parametrize("harm", ["deleted", "damaged"])
def test_without_a_file_of_the_store_nothing_is_admitted(leased, name, harm):
    place = leased()
    server = place.start()
    asked(server, 1)
    server.stop()
    place.lose_power()
    path = place.store / name
    whole = path.read_bytes()
    if harm == "deleted":
        path.unlink()
    else:
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    server = place.start()
    count = place.model.count
    answer = server.chat()
    assert (answer.status, answer.code) == (503, "meter_unavailable")
    assert place.model.count == count
    assert path.exists() == (harm == "damaged"), "nothing is made silently"
    path.write_bytes(whole)
    path.chmod(0o600)
    place.own(path)
    until(lambda: server.chat().status == 200, 5, "service to go on")
    assert place.used("site-day") >= 2


def test_of_many_that_start_at_once_one_restores(leased):
    place = leased()
    server = place.start()
    asked(server, 3)
    server.stop()
    for _ in range(5):
        place.forget()
        children = [subprocess.Popen([place.program, "stats", "--json", "-c", place.config], text=True,
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=place.environment())
                    for _ in range(8)]
        done = [child.communicate(timeout=60) for child in children]
        assert all(child.returncode == 0 for child in children), done
        for out, _ in done:
            assert next(one["used"] for one in json.loads(out)["limits"] if one["name"] == "site-day") == 3


def test_rows_of_another_boot_are_none(leased):
    """Where the run directory is on a disk: what was not synced may be half there."""
    place = leased()
    server = place.start()
    asked(server, 3)
    kill_gateways(server)
    server.stop()
    place.new_boot()
    place.data_file.write_bytes(os.urandom(8192))
    assert place.used("site-day") >= 3


def test_a_site_goes_from_one_durability_to_the_other(leased):
    place = leased()
    server = place.start()
    asked(server, 4)
    server.stop()
    text = place.directory / "store.jsonl"
    place.run("export", text)
    place.site["durability"] = "commit"
    place.write()
    done = place.run("stats", check=False)
    assert done.returncode == 1 and "another durability" in done.stderr and "export" in done.stderr
    for durability in ("commit", "lease"):
        place.store.rename(place.directory / f"moved-{durability}")
        shutil.copytree(place.directory / f"moved-{durability}", place.directory / "kept", dirs_exist_ok=True)
        place.forget()
        place.site["durability"] = durability
        place.write()
        place.init()
        assert "imported" in place.run("import", text)
        assert place.used("site-day") == 4
        text.unlink()
        place.run("export", text)
    place.site["durability"] = "commit"
    place.write()
    server = place.start()
    assert server.chat().code == "meter_unavailable"
    assert "another durability" in server.log()
    place.site["durability"] = "lease"
    place.write()
    place.forget()
    until(lambda: server.chat().status == 200, 5, "service to go on")


def test_init_where_lmdb_cannot_map_names_the_way_out(leased):
    """As on jffs2, which maps nothing that is open for writing; by a library that is preloaded."""
    place = leased(init=False)
    place.site["durability"] = "commit"
    place.write()
    library = place.directory / "jffs2.so"
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", library, ROOT / "tests/e2e/jffs2_shim.c",
                    "-ldl"], check=True)
    place.store.mkdir(mode=0o700)
    place.own(place.store)
    done = place.run("init", *place.owner(), check=False, LD_PRELOAD=str(library))
    assert done.returncode == 3, done.stderr
    assert "durability = lease" in done.stderr
    assert not list(place.store.glob("*.mdb")) and not place.periods.exists()
    place.site["durability"] = "lease"
    place.write()
    assert "store" in place.run("init", *place.owner(), LD_PRELOAD=str(library))
    server = place.start()
    asked(server, 1)


def test_check_tells_of_the_copy(leased):
    place = leased()
    said = " ".join(place.run("check", check=False).stdout.split())
    assert "durability = lease" in said and f"live in {place.rows}, copied to flash" in said
    kind = subprocess.run(["stat", "-f", "-c", "%T", place.run_directory], text=True, capture_output=True,
                          check=True).stdout.strip()
    assert ("run-directory is not on tmpfs" in said) == (kind not in ("tmpfs", "ramfs"))


def test_check_knows_tmpfs(leased):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        place = leased(init=False)
        place.own(directory)
        place.site["run-directory"] = directory
        place.write()
        place.init()
        said = " ".join(place.run("check", check=False).stdout.split())
        assert "copied to flash" in said and "not on tmpfs" not in said


@pytest.mark.parametrize("mode", MODES)
def test_another_run_directory_and_the_first_again_is_never_over(leased, model, mode):
    """Each time the rows in the other one are left as they were, in the same boot."""
    most = 64
    place = leased(limits={"site-day": limit("everyone", "calls", "day", most)})
    other = place.directory / "other"
    other.mkdir(mode=0o700)
    place.own(other)
    server = place.start(mode)
    for run in (other, place.run_directory, other, place.run_directory):
        for _ in range(most // 8):  # the first of those that find other rows than they left hear 503
            until(lambda: server.chat().status == 200, 10, "one that is admitted")
        place.site["run-directory"] = run
        place.write()
    until(lambda: server.chat().status == 429, 20, "the last")
    assert most // 2 < model.count <= most


def test_cgi_without_cron_copies_after_an_answer(leased):
    place = leased()
    server = place.start("cgi")
    asked(server, 1)
    server.at_rest()
    (place.rows / "copied").unlink()  # as if it were an hour ago
    before = place.copy.stat().st_ino
    asked(server, 1)
    until(lambda: place.copy.stat().st_ino != before, 5, "the copy")
    server.at_rest()
    place.lose_power(server)
    assert place.used("site-day") == 2


@pytest.mark.parametrize("mode", ["external", "cgi"])
def test_flash_that_cannot_be_written_lets_nobody_beyond_the_lease(leased, mode):
    place = leased()
    server = place.start(mode)
    asked(server, 1)
    place.store.chmod(0o500)
    admitted = 1
    while (reply := server.chat()).status == 200:
        admitted += 1
        assert admitted <= AHEAD + 1
    assert (reply.status, reply.code) == (503, "meter_unavailable")
    place.store.chmod(0o700)
    until(lambda: server.chat().status == 200, 10, "an admission, without a new start")
    place.lose_power(server)
    assert place.used("site-day") > admitted


def test_nobody_but_the_owner_reads_it(leased):
    place = leased()
    for path in (place.copy, place.lease, place.data_file, place.rows / "boot"):
        assert path.stat().st_mode & 0o777 == 0o600, path
        assert path.owner() == USER
    assert place.rows.stat().st_mode & 0o777 == 0o700
