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


def refused(answer):
    """503 with the meter's code, or `stopping` while a process starts anew for a new secret;
    where the mapped file was cut under a live process, the web server's own 5xx is as good."""
    if answer.status in (500, 502, 503) and answer.header("Content-Type") == "text/html":
        return True
    assert answer.status == 503 and answer.code in ("meter_unavailable", "stopping"), answer.body
    assert int(answer.header("Retry-After")) >= 1
    return True


def tree(place):
    return sorted(str(path.relative_to(place.directory)) for path in place.store.rglob("*"))


class Fault:
    """`harm` damages the store of a site, `mend` undoes just that."""

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

    def harm(self):
        self.content = self.data.read_bytes()
        assert b"pennygat\x01" in self.content
        self.overwrite(self.content.replace(b"pennygat\x01", b"pennygat\x02"))


class OtherSecret(Fault):
    def harm(self):
        self.old = self.place.secret.read_text(encoding="ascii")
        self.place.secret.write_text("5" * 64 + "\n", encoding="ascii")

    def mend(self):
        self.place.secret.write_text(self.old, encoding="ascii")


class SecretMissing(Fault):
    def harm(self):
        self.place.secret.rename(self.place.directory / "secret.away")

    def mend(self):
        (self.place.directory / "secret.away").rename(self.place.secret)


class SecretReadable(Fault):
    def harm(self):
        self.place.secret.chmod(0o644)

    def mend(self):
        self.place.secret.chmod(0o600)


class PeriodsMissing(Fault):
    def harm(self):
        self.place.periods.rename(self.place.directory / "periods.away")

    def mend(self):
        (self.place.directory / "periods.away").rename(self.place.periods)


class PeriodsDamaged(Fault):
    def harm(self):
        self.old = self.place.periods.read_bytes()
        self.place.periods.write_bytes(self.old[:-1] + bytes([self.old[-1] ^ 1]))

    def mend(self):
        self.place.periods.write_bytes(self.old)


class RunMissing(Fault):
    def harm(self):
        (self.place.store / "run").rename(self.place.directory / "run.away")

    def mend(self):
        (self.place.directory / "run.away").rename(self.place.store / "run")


WHILE_RUNNING = [Missing, DataDeleted, LockDeleted, Replaced, Emptied, Truncated, Garbage, Zeros,
                 OtherSecret, SecretMissing, PeriodsMissing, RunMissing]
AT_START = [Missing, DataDeleted, LockDeleted, Emptied, Truncated, Garbage, Zeros, NewerVersion,
            OtherSecret, SecretMissing, SecretReadable, PeriodsMissing, PeriodsDamaged, RunMissing]


@pytest.mark.parametrize("fault", WHILE_RUNNING, ids=lambda fault: fault.__name__)
def test_f42_the_store_is_harmed_under_a_running_process(site, model, fault):
    place = site()
    server = place.start(procs=1)
    assert server.chat().status == 200
    place.settled()
    harmed = fault(place)
    harmed.harm()
    before, log = tree(place), len(server.log())
    for stream in (False, True, False):
        assert refused(server.chat(stream=stream))
    assert model.count == 1
    assert tree(place) == before, "something was created"
    until(lambda: "level=error" in server.log()[log:] or "exited" in server.log()[log:] or
          "died" in server.log()[log:], 5, "a line in the log")
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
    server = place.start(kind)
    before = tree(place)
    for stream in (False, True):
        assert refused(server.chat(stream=stream))
    assert model.count == 1
    assert tree(place) == before, "something was created"
    assert "level=error" in server.log()
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
    admitted = 0
    for _ in range(8):
        answer = server.chat()
        admitted += answer.status == 200
        assert answer.status == 200 or refused(answer)
    assert refused(server.chat())
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
