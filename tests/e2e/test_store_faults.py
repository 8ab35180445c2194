"""F42: whatever happens to the store, the answer is 503 with its code, the model is not called,
nothing is created, the log says what is wrong; and once it is mended, service goes on."""
import contextlib
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest

from harness import limit, until

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root for a mount")


def refused(answer, *codes, cut=False):
    """503 with the meter's code (or one of `codes`), or `stopping` while a process starts anew for
    a new secret; where the mapped file was `cut` under a live process, the web server's own 5xx is
    as good."""
    if cut and answer.status in (500, 502, 503) and answer.header("Content-Type") == "text/html":
        return True
    assert answer.status == 503 and answer.code in (codes or ("meter_unavailable", "stopping")), answer.body
    assert int(answer.header("Retry-After")) >= 1
    return True


def tree(place):
    """Names and sizes of all that is in the store's directory."""
    return sorted((str(path.relative_to(place.directory)), path.is_file() and path.stat().st_size)
                  for path in place.store.rglob("*"))


class Fault:
    """`harm` damages the store of a site, `mend` undoes just that. `says` is what the log must
    say, since its owner has to find out from there."""
    codes = ()
    says = "the store is missing"
    cuts = False

    def __init__(self, place):
        self.place = place
        self.data = place.data_file

    def overwrite(self, content):
        """Writes into the same file: same inode, as a crash or a bad card would."""
        with open(self.data, "r+b") as file:
            file.truncate(len(content))
            file.write(content)


class Missing(Fault):
    def harm(self):
        self.place.store.rename(self.place.directory / "away")

    def mend(self):
        (self.place.directory / "away").rename(self.place.store)


class DataDeleted(Fault):
    def harm(self):
        self.data.rename(self.place.directory / "data.away")

    def mend(self):
        (self.place.directory / "data.away").rename(self.data)


class LockDeleted(Fault):
    def harm(self):
        (self.place.store / "lock.mdb").rename(self.place.directory / "lock.away")

    def mend(self):
        (self.place.directory / "lock.away").rename(self.place.store / "lock.mdb")


class Replaced(DataDeleted):
    """By a fresh one, made for the same secret: a running process would go on counting in the
    old one, and a new one would have a new budget."""
    says = "the store was replaced while open"

    def harm(self):
        super().harm()
        other = self.place.directory / "other"
        other.mkdir(mode=0o700)
        self.place.own(other)
        store, self.place.site["store"] = self.place.site["store"], other
        text, self.place.site["store"] = self.place.text(), store
        config = self.place.directory / "other.conf"
        config.write_text(text, encoding="utf-8")
        self.place.run("init", *self.place.owner(), config=config)
        shutil.copy2(other / "data.mdb", self.data)
        self.place.own(self.data)


class Emptied(Fault):
    says = "the store is damaged or is none"
    cuts = True

    def harm(self):
        self.content = self.data.read_bytes()
        self.overwrite(b"")

    def mend(self):
        self.overwrite(self.content)


class Truncated(Emptied):
    def harm(self):
        self.content = self.data.read_bytes()
        self.overwrite(self.content[:3 * 4096])


class Garbage(Emptied):
    def harm(self):
        self.content = self.data.read_bytes()
        self.overwrite(os.urandom(len(self.content)))


class Zeros(Emptied):
    def harm(self):
        self.content = self.data.read_bytes()
        self.overwrite(bytes(len(self.content)))


class NewerVersion(Emptied):
    """The schema record's magic is followed by its version."""
    says = "the store was written by a newer version"
    cuts = False

    def harm(self):
        self.content = self.data.read_bytes()
        assert b"pennygat\x01" in self.content
        self.overwrite(self.content.replace(b"pennygat\x01", b"pennygat\x02"))


class OtherSecret(Fault):
    says = "the store belongs to another secret"

    def harm(self):
        self.old = self.place.secret.read_text(encoding="ascii")
        self.place.secret.write_text("5" * 64 + "\n", encoding="ascii")

    def mend(self):
        self.place.secret.write_text(self.old, encoding="ascii")


class SecretMissing(Fault):
    """Nothing that passes by itself: the owner has to put it back."""
    codes = ("configuration",)
    says = "secret: not found"

    def harm(self):
        self.place.secret.rename(self.place.directory / "secret.away")

    def mend(self):
        (self.place.directory / "secret.away").rename(self.place.secret)


class SecretReadable(Fault):
    codes = ("configuration",)
    says = "secret: a secret that others could read or write"

    def harm(self):
        self.place.secret.chmod(0o644)

    def mend(self):
        self.place.secret.chmod(0o600)


class PeriodsMissing(Fault):
    says = "the period key file is missing"

    def harm(self):
        self.place.periods.rename(self.place.directory / "periods.away")

    def mend(self):
        (self.place.directory / "periods.away").rename(self.place.periods)


class PeriodsDamaged(Fault):
    says = "the period key file is missing or does not match"

    def harm(self):
        self.old = self.place.periods.read_bytes()
        self.place.periods.write_bytes(self.old[:-1] + bytes([self.old[-1] ^ 1]))

    def mend(self):
        self.place.periods.write_bytes(self.old)


class RunMissing(Fault):
    says = "the run directory or a file in it is missing"

    def harm(self):
        (self.place.store / "run").rename(self.place.directory / "run.away")

    def mend(self):
        (self.place.directory / "run.away").rename(self.place.store / "run")


class PeriodsEmptied(PeriodsDamaged):
    def harm(self):
        self.old = self.place.periods.read_bytes()
        self.place.periods.write_bytes(b"")


class MarkDamaged(Fault):
    """The mark in the run directory is what an older copy is told by."""

    says = "the store is damaged or is none"

    def __init__(self, place):
        super().__init__(place)
        self.mark = place.store / "run/mark"

    def harm(self):
        self.old = self.mark.read_bytes()
        with open(self.mark, "r+b") as file:
            file.write(bytes(len(self.old)))

    def mend(self):
        with open(self.mark, "r+b") as file:
            file.write(self.old)


class MarkOfAnother(MarkDamaged):
    says = "the store was replaced while open"

    def harm(self):
        self.old = self.mark.read_bytes()
        with open(self.mark, "r+b") as file:
            file.seek(8)
            file.write(os.urandom(16))


class StoreIsAFile(Missing):
    says = "is missing"

    def harm(self):
        super().harm()
        self.place.store.write_bytes(b"")

    def mend(self):
        self.place.store.unlink()
        super().mend()


class DataIsALink(DataDeleted):
    """To the very file; but a link can be made to point elsewhere by whoever owns its target."""

    says = "the store was replaced while open"

    def harm(self):
        super().harm()
        self.data.symlink_to(self.place.directory / "data.away")

    def mend(self):
        self.data.unlink()
        super().mend()


class DataIsALinkAtStart(DataIsALink):
    says = "the store is damaged or is none"


WHILE_RUNNING = [Missing, DataDeleted, LockDeleted, Replaced, Emptied, Truncated, Garbage, Zeros,
                 NewerVersion, OtherSecret, SecretMissing, SecretReadable, PeriodsMissing, PeriodsDamaged,
                 PeriodsEmptied, RunMissing, MarkDamaged, MarkOfAnother, StoreIsAFile, DataIsALink]
AT_START = [Missing, DataDeleted, LockDeleted, Replaced, Emptied, Truncated, Garbage, Zeros, NewerVersion,
            OtherSecret, SecretMissing, SecretReadable, PeriodsMissing, PeriodsDamaged, PeriodsEmptied,
            RunMissing, MarkDamaged, MarkOfAnother, StoreIsAFile, DataIsALinkAtStart]


def complaints(server, since=0):
    """The lines of trouble in the log. The web server may tell of a process that died of a cut
    file; the next one then says why it does not serve."""
    return [line for line in server.log()[since:].splitlines() if "level=error" in line]


@pytest.mark.parametrize("fault", WHILE_RUNNING, ids=lambda fault: fault.__name__)
def test_f42_the_store_is_harmed_under_a_running_process(site, model, fault):
    place = site()
    server = place.start(procs=1)
    assert server.chat().status == 200
    place.settled()
    harmed = fault(place)
    harmed.harm()
    before, log = tree(place), len(server.log())
    for stream in (False, True, False, False, False):
        assert refused(server.chat(stream=stream), *fault.codes, cut=fault.cuts)
    assert model.count == 1
    assert tree(place) == before, "something was made or written"

    def tells():  # a process that died of a cut file leaves it to the next one
        return refused(server.chat(), *fault.codes, cut=fault.cuts) and complaints(server, log)

    told = until(tells, 5, "a line in the log")
    assert any(fault.says in line for line in told), told
    assert len(told) <= 2 and len(set(told)) == len(told), "what holds on is not told with every request"
    harmed.mend()
    until(lambda: server.chat().status == 200, 10, "service once it is mended")
    assert place.used("site-day") == model.count


@pytest.mark.parametrize("fault", AT_START, ids=lambda fault: fault.__name__)
@pytest.mark.parametrize("kind", ["spawned", "cgi"])
def test_f42_the_store_is_harmed_before_the_start(site, model, fault, kind):
    place = site()
    first = place.start()
    assert first.chat().status == 200
    first.stop()
    harmed = fault(place)
    harmed.harm()
    before = tree(place)
    server = place.start(kind)
    for stream in (False, True):
        assert refused(server.chat(stream=stream), *fault.codes)
    assert model.count == 1
    assert tree(place) == before, "something was made or written"
    told = complaints(server)
    assert len(told) == (1 if kind == "spawned" else 2) and all(fault.says in line for line in told), told
    done = place.run("check", check=False)
    assert done.returncode != 0
    harmed.mend()
    until(lambda: server.chat().status == 200, 10, "service once it is mended")
    assert place.used("site-day") == model.count


def test_f42_an_older_copy_is_put_back(site, model):
    """Rolled back by more than one batch within a boot: refused, since it would be new budget."""
    place = site(limits={"site-day": limit("everyone", "calls", "day", 5)})
    server = place.start()
    assert server.chat().status == 200
    place.settled()
    older = place.data_file.read_bytes()
    assert [server.chat().status for _ in range(5)] == [200] * 4 + [429]
    server.stop()
    newer = place.data_file.read_bytes()
    Fault(place).overwrite(older)
    server = place.start()
    for _ in range(3):
        assert refused(server.chat())
    assert model.count == 5
    assert place.run("check", check=False).returncode != 0
    Fault(place).overwrite(newer)
    until(lambda: server.chat().status == 429, 10, "the newer copy's count")
    assert model.count == 5


def test_a_current_copy_counts_on(site, model):
    """Put in place under a running process; what it holds is all that was counted."""
    place = site()
    server = place.start()
    assert server.chat().status == 200
    place.settled()
    copy = place.directory / "copy"
    shutil.copy2(place.data_file, copy)
    place.own(copy)
    copy.rename(place.data_file)
    until(lambda: server.chat().status == 200, 5, "service from the copy")
    assert place.used("site-day") == model.count == 2


def test_f42_read_only_files(site, model):
    place = site()
    place.data_file.chmod(0o400)
    server = place.start()
    assert refused(server.chat())
    assert model.count == 0
    place.data_file.chmod(0o600)
    until(lambda: server.chat().status == 200, 10, "service once it is mended")


def many_callers(server, most):
    """Admits callers of their own addresses until one is refused with 503; how many were."""
    for n in range(most):
        answer = server.chat(source=f"127.{1 + n // 60000}.{n // 250 % 240}.{1 + n % 250}")
        if answer.status == 503:
            return n, answer
        assert answer.status == 200
    raise AssertionError("the store never became full")


def test_f42_the_map_is_full(site, model):
    windows = ["30d", "31d", "32d", "33d", "34d", "35d", "36d", "37d", "38d", "39d"]
    place = site(options={"store-size": "1M"}, limits={
        f"w{window}": limit("address", "calls", window, 1000) for window in windows})
    server = place.start()
    admitted, answer = many_callers(server, 4000)
    assert refused(answer)
    assert model.count == admitted
    assert place.used("site-day") == admitted
    place.site["store-size"] = "4M"
    place.write()
    until(lambda: server.chat(source="127.9.9.9").status == 200, 15, "service with a larger map")
    for n in range(100):
        assert server.chat(source=f"127.9.8.{1 + n}").status == 200
    used = place.used("site-day")
    place.site["store-size"] = "1M"  # as a profile for a smaller machine does
    place.write()
    until(lambda: many_callers(server, 4000)[1].code == "meter_unavailable", 15, "that the smaller map is full")
    assert place.used("site-day") >= used, "nothing that was counted is lost"


@pytest.fixture
def small_disk():
    """A file system of 2 MiB of its own."""
    directory = tempfile.mkdtemp(prefix="pennygate-disk-")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", directory], check=True)
    os.chmod(directory, 0o755)
    yield pathlib.Path(directory)
    subprocess.run(["umount", "-l", directory], check=True)
    os.rmdir(directory)


@as_root
def test_f42_the_file_system_is_full(site, model, small_disk):
    place = site(store_directory=small_disk / "store")
    server = place.start()
    assert server.chat().status == 200
    filler = small_disk / "filler"
    with open(filler, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass
    admitted, answer = many_callers(server, 3000)
    assert refused(answer)
    assert model.count == 1 + admitted
    assert refused(server.chat())
    assert model.count == 1 + admitted
    filler.unlink()
    until(lambda: server.chat().status == 200, 10, "service once there is room")


@as_root
def test_f42_the_file_system_is_read_only(site, model, small_disk):
    place = site(store_directory=small_disk / "store")
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    server = place.start()
    assert refused(server.chat())
    assert model.count == 0
    subprocess.run(["mount", "-o", "remount,rw", small_disk], check=True)
    until(lambda: server.chat().status == 200, 10, "service once it is writable")


@pytest.mark.parametrize("call, error", [("pwrite64", "EIO"), ("pwrite64", "ENOSPC"),
                                         ("fdatasync", "EIO"), ("fdatasync", "ENOSPC")])
@pytest.mark.parametrize("after", [1, 2, 3, 5, 8])
def test_f42_a_write_fails_at_any_point(site, model, call, error, after):
    """Nothing is admitted whose reservation did not reach the disk; a later process counts on."""
    place = site(limits={"site-day": limit("everyone", "calls", "day", 100)})
    prefix = ["/usr/bin/strace", "-f", "-qq", "-I2", "-o", "/dev/null", "-e", f"trace={call}",
              "-e", f"inject={call}:error={error}:when={after}+"]
    server = place.start(prefix=prefix)
    admitted = failed = 0
    # strace counts for each thread: a store opened anew, a second after a fault, has a new writer.
    while failed < 2:
        answer = server.chat()
        admitted += answer.status == 200
        failed += answer.status != 200
        assert answer.status == 200 or refused(answer)
        assert admitted < 50, "the fault never came"
    assert model.count == admitted
    server.stop()
    assert place.start().chat().status == 200
    assert model.count == admitted + 1
    # what failed may have happened: then it stays charged, never the other way round
    assert place.used("site-day") >= admitted + 1


def test_a_deleted_store_does_not_come_back_by_itself(site, model):
    place = site(limits={"site-day": limit("everyone", "calls", "day", 1)})
    server = place.start()
    assert server.chat().status == 200 and server.chat().status == 429
    shutil.rmtree(place.store)
    place.store.mkdir(mode=0o700)
    place.own(place.store)
    for _ in range(3):
        assert refused(server.chat())
    assert tree(place) == []
    assert model.count == 1


def test_init_never_makes_a_store_over_another(site):
    place = site()
    before = place.data()
    done = place.run("init", check=False)
    assert done.returncode != 0
    assert place.data() == before


@pytest.mark.parametrize("fault", [SecretMissing, SecretReadable], ids=lambda fault: fault.__name__)
def test_the_log_names_a_secret_that_cannot_be_read(site, model, fault):
    place = site()
    server = place.start()
    assert server.chat().status == 200
    harmed = fault(place)
    harmed.harm()
    assert refused(server.chat(), "configuration")
    until(lambda: f"secret-file: {place.secret}" in server.log(), 5, "the file's name in the log")
    assert place.secret.name == "secret" and "5" * 64 not in server.log()
    harmed.mend()
    until(lambda: server.chat().status == 200, 10, "service once it is back")


@pytest.mark.parametrize("how", ["emptied", "gone"])
def test_a_lost_store_is_called_one(site, model, how):
    """The secret and the run directory lay in it, but what is missing is the store."""
    place = site(init=False)
    place.site["secret-file"] = None
    place.write()
    place.init()
    shutil.rmtree(place.store)
    if how == "emptied":
        place.store.mkdir(mode=0o700)
        place.own(place.store)
    server = place.start()
    assert refused(server.chat(), "meter_unavailable")
    assert "the store is missing" in server.log() and str(place.store) in server.log()
    done = place.run("stats", check=False)
    assert done.returncode == 1 and "store" in done.stderr and "pennygate init" in done.stderr
    assert "run directory" not in server.log() + done.stderr + place.run("check", check=False).stdout


@as_root
@pytest.mark.parametrize("what", ["run", "store"])
def test_files_of_somebody_else_are_called_so(site, model, what):
    place = site()
    shutil.chown({"run": place.store / "run", "store": place.store}[what], "root", "root")
    server = place.start()
    assert refused(server.chat(), "meter_unavailable")
    until(lambda: "belongs to another user" in server.log(), 5, "the owner's problem in the log")
    assert "missing" not in server.log()


class RolledBack:
    """A site whose five calls are used up, and a copy of its store from before the second."""

    def __init__(self, site, procs=1):
        self.place = site(limits={"site-day": limit("everyone", "calls", "day", 5)})
        self.servers = [self.place.start(procs=procs), self.place.start(), self.place.start("cgi")]
        assert self.servers[0].chat().status == 200
        self.place.settled()
        self.older = self.place.data_file.read_bytes()
        assert [server.chat().status for server in [*self.servers, self.servers[1]]] == [200] * 4
        self.place.settled()
        self.newer = self.place.data_file.read_bytes()
        assert self.statuses() == [429] * 3

    def statuses(self):
        return [server.chat().status for server in self.servers]

    def put(self, content, how):
        if how == "written over it":
            Fault(self.place).overwrite(content)
            return
        new = self.place.directory / "new.mdb"
        new.write_bytes(content)
        new.chmod(0o600)
        self.place.own(new)
        new.rename(self.place.data_file)


@pytest.mark.parametrize("how", ["written over it", "moved in its place"])
@pytest.mark.parametrize("procs", [1, 2])
def test_f42_an_older_copy_is_put_back_under_running_processes(site, model, how, procs):
    """LMDB goes on numbering where the lock file says while anybody holds it, so that an older
    copy would pass for the newest. No process stops meanwhile."""
    one = RolledBack(site, procs)
    one.put(one.older, how)
    for _ in range(3):
        assert all(refused(server.chat()) for server in one.servers)
    assert model.count == 5
    assert all("the store is older than what was last committed" in server.log() for server in one.servers)
    assert one.place.run("check", check=False).returncode != 0
    one.put(one.newer, how)
    until(lambda: one.statuses() == [429] * 3, 10, "the newer copy's count")
    assert model.count == 5 == one.place.used("site-day")


@pytest.mark.parametrize("how", ["written over it", "moved in its place"])
def test_f42_an_older_copy_can_be_adopted_once_nobody_holds_the_newer(site, model, how):
    one = RolledBack(site)
    one.put(one.older, how)
    assert refused(one.servers[0].chat()), "the other process has not noticed, and holds the store"
    done = one.place.run("adopt", check=False)
    assert done.returncode != 0 and "stop" in done.stderr
    assert all(refused(server.chat()) for server in one.servers)
    for server in one.servers:
        server.stop()
    one.place.run("adopt")
    server = one.place.start()
    assert [server.chat().status for _ in range(5)] == [200] * 4 + [429]
    assert model.count == 9, "the owner has said so"


class Failing:
    """Attached to processes, the system calls of these names fail in them; until the end."""

    def __init__(self, pids, calls, error):
        self.command = ["/usr/bin/strace", "-f", "-qq", "-I2", "-o", "/dev/null", "-e", f"trace={calls}", "-e",
                        f"inject={calls}:error={error}"]
        for pid in pids:
            self.command += ["-p", str(pid)]
        self.pids = pids

    def traced(self):
        return all("TracerPid:\t0\n" not in task.read_text(encoding="ascii")
                   for pid in self.pids for task in pathlib.Path(f"/proc/{pid}/task").glob("*/status"))

    def __enter__(self):
        self.strace = subprocess.Popen(self.command, stdin=subprocess.DEVNULL)
        until(self.traced, 10, "the tracing")
        return self

    def __exit__(self, *_):
        self.strace.terminate()
        self.strace.wait(10)


@as_root
@pytest.mark.parametrize("calls, error", [("pwrite64", "EIO"), ("pwrite64", "ENOSPC"), ("pwrite64", "EROFS"),
                                          ("fdatasync", "EIO"), ("fdatasync,fsync,msync", "EIO")])
def test_f42_a_process_goes_on_once_writing_works_again(site, model, calls, error):
    """All of a kind fail for a while: the process refuses and says so; then they work again, and
    the same process serves again and has lost nothing of what it admitted."""
    place = site(limits={"site-day": limit("everyone", "calls", "day", 1000)})
    server = place.start()
    assert [server.chat().status for _ in range(2)] == [200, 200]
    place.settled()
    pids, failed = server.gateways(), 0
    with Failing(pids, calls, error):
        for stream in (False, True, False):
            assert refused(server.chat(stream=stream))
            failed += 1
    assert model.count == 2
    assert any("the meter is unavailable" in line for line in complaints(server))
    until(lambda: server.chat().status == 200, 10, "service once writing works again")
    assert server.gateways() == pids
    assert model.count == 3
    place.settled()
    # what failed may have happened, and stays charged then; never the other way round
    assert 3 <= place.used("site-day") <= 3 + failed


@as_root
def test_f42_the_file_system_was_full_before_the_first_start(site, model, small_disk):
    place = site(store_directory=small_disk / "store")
    filler = small_disk / "filler"
    with open(filler, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass
    servers = [place.start(), place.start("cgi")]
    for server in servers:
        for _ in range(2):
            assert refused(server.chat())
        assert complaints(server)
    assert model.count == 0
    filler.unlink()
    for server in servers:
        until(lambda server=server: server.chat().status == 200, 10, "service once there is room")


def without_mapping(place, error):
    """The start of a command whose maps of data.mdb and lock.mdb fail, as on jffs2 or 9p."""
    return ["/usr/bin/strace", "-f", "-qq", "-I2", "-o", "/dev/null", "-P", f"{place.store}/data.mdb",
            "-P", f"{place.store}/lock.mdb", "-e", "trace=mmap", "-e", f"inject=mmap:error={error}"]


@as_root
@pytest.mark.parametrize("error", ["ENODEV", "EINVAL"])
def test_f45_a_file_system_that_cannot_map(site, model, error):
    """init says so and leaves nothing; a store that was moved there later admits nobody."""
    place = site(init=False)
    place.store.mkdir(mode=0o700)
    place.own(place.store)
    done = subprocess.run([*without_mapping(place, error), place.program, "init", "-c", place.config, *place.owner()],
                          capture_output=True, text=True, env=place.environment(), stdin=subprocess.DEVNULL,
                          timeout=60, check=False)
    assert done.returncode != 0
    assert "cannot lock or map" in done.stderr and "ext4" in done.stderr, "it names the way out"
    assert not place.data_file.exists() and not place.periods.exists()
    place.init()
    server = place.start("external", prefix=without_mapping(place, error))
    for _ in range(3):
        assert refused(server.chat())
    assert "cannot lock or map" in server.log()
    assert model.count == 0
    server.stop()
    assert place.start().chat().status == 200


def test_adopting_a_healthy_store_disturbs_no_running_process(site, model):
    """What it has not settled yet is still settled."""
    place = site(limits={"budget": limit("everyone", "tokens", "day", 100000)})
    server = place.start()
    for _ in range(3):
        assert server.chat().status == 200
        assert "nothing to adopt" in place.run("adopt")
    assert place.settled()["settled"] == 3
    assert "level=error" not in server.log()
