"""The packages, built as `make deb` builds them, and a host to install them on: a clean root made by
mmdebstrap from the archive that apt is configured with, in namespaces of its own."""
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/e2e"))

from harness import Model, accepts, free_port, until  # noqa: E402

BOOTSTRAP_S = 420
VERSION = re.search(r"^VERSION += (\S+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)[1]
HIGHER = VERSION + "+1"
PATH = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
WEB = ["lighttpd", "apache2", "nginx-light"]


def commit_time():
    done = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or str(int((ROOT / "Makefile").stat().st_mtime))


def build(version, directory):
    """The package, built in this directory."""
    subprocess.run([ROOT / "platform/debian/build.sh", version, commit_time(), directory], check=True,
                   stdout=subprocess.DEVNULL)
    [made] = directory.glob(f"pennygate_{version}_*.deb")
    return made


@pytest.fixture(scope="session")
def package(tmp_path_factory):
    return build(VERSION, tmp_path_factory.mktemp("first"))


@pytest.fixture(scope="session")
def higher(tmp_path_factory):
    return build(HIGHER, tmp_path_factory.mktemp("higher"))


def sources():
    """(this Debian's name, the lines of its archive) as apt has them."""
    name = re.search(r"^VERSION_CODENAME=(\w+)", pathlib.Path("/etc/os-release").read_text(encoding="utf-8"), re.M)[1]
    lines = subprocess.run(["apt-get", "indextargets", "--format", "deb $(REPO_URI) $(RELEASE) $(COMPONENT)",
                            "Created-By: Packages"], capture_output=True, text=True, check=True).stdout.splitlines()
    mine = sorted({line for line in lines if line.split()[2].startswith(name)})
    if not mine:
        pytest.skip(f"apt is configured with no archive of {name}")
    return name, "\n".join(mine) + "\n"


def needs(package):
    """What the package depends on, of alternatives the first."""
    text = subprocess.run(["dpkg-deb", "-f", package, "Depends"], capture_output=True, text=True, check=True).stdout
    return [re.match(r"\s*([a-z0-9.+-]+)", part)[1] for part in text.split(",")]


def bootstrap(root, package):
    name, lines = sources()
    wanted = [*needs(package), *WEB, "systemd-standalone-tmpfiles"]
    command = ["mmdebstrap", "--mode=root", "--variant=apt", "--include=" + ",".join(wanted),
               "--dpkgopt=force-unsafe-io", '--aptopt=Acquire::Check-Valid-Until "false"', name, root, "-"]
    try:
        done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=BOOTSTRAP_S, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip(f"mmdebstrap made no clean root within {BOOTSTRAP_S} s")
    if done.returncode != 0:
        pytest.skip("mmdebstrap made no clean root: " + (done.stderr.strip().splitlines() or [""])[-1])


class Host:
    """A clean Debian without systemd. Whatever runs in it ends with it: its first process does, which
    reads our pipe."""

    # It answers what is asked of a unit that is enabled and runs.
    SYSTEMCTL = "#!/bin/sh\necho \"$*\" >>/run/systemctl\ncase $* in *is-enabled*) echo enabled ;; esac\n"

    def __init__(self, package):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="pennygate-deb-"))
        self.root = self.directory / "root"
        bootstrap(self.root, package)
        begin = f"mount -t proc proc {self.root}/proc && echo $$ && exec cat"
        self.first = subprocess.Popen(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", begin],
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.first.stdout.readline().strip() == "1"
        [inner] = until(self._inner, 10, "the first process of the namespace")
        self.enter = ["nsenter", "--mount", "--pid", "--target", inner, "chroot"]
        self.port = free_port()
        self.listening = self.service = self.web = None
        self.options = []

    def _inner(self):
        pid = self.first.pid
        return pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()

    def path(self, name):
        return self.root / name.lstrip("/")

    def read(self, name):
        return self.path(name).read_text(encoding="utf-8")

    def exists(self, name):
        return os.path.lexists(self.path(name))

    def run(self, *command, check=True):
        """What the command printed."""
        done = subprocess.run([*self.enter, self.root, *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False,
                              env={**PATH, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"})
        assert done.returncode == 0 or not check, f"{command}: {done.stdout}"
        return done.stdout

    def apt(self, *command):
        return self.run("apt-get", "-q", "-y", "-o", "Dpkg::Options::=--force-unsafe-io", "-o", "Dpkg::Use-Pty=0",
                        "--no-install-recommends", *command)

    def install(self, package, *options):
        shutil.copy(package, self.path("tmp"))
        return self.apt("install", *options, f"/tmp/{package.name}")

    def systemd(self, act):
        """What systemd would be told meanwhile: a systemctl that writes it down."""
        self.path("run/systemd/system").mkdir(parents=True, exist_ok=True)
        stand_in = self.path("usr/bin/systemctl")
        stand_in.write_text(self.SYSTEMCTL, encoding="ascii")
        stand_in.chmod(0o755)
        act()
        told = self.read("run/systemctl")
        self.path("run/systemctl").unlink()
        shutil.rmtree(self.path("run/systemd"))
        stand_in.unlink()
        return [" ".join(word for word in line.split() if not word.startswith("-")) for line in told.splitlines()]

    def unit(self, name, key):
        return re.findall(rf"^{key}=(.*)$", self.read(f"lib/systemd/system/pennygate.{name}"), re.M)

    def ids(self, name):
        """(user, group) of that name, in the host."""
        lines = [line.split(":") for line in self.read("etc/passwd").splitlines()]
        return next((int(line[2]), int(line[3])) for line in lines if line[0] == name)

    def listen(self):
        """As pennygate.socket does."""
        [path] = self.unit("socket", "ListenStream")
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(str(self.path(path)))
        [group] = self.unit("socket", "SocketGroup")
        os.chown(self.path(path), self.ids("pennygate")[0], self.ids(group)[1])
        self.path(path).chmod(int(self.unit("socket", "SocketMode")[0], 8))
        self.listening.listen(128)

    def stop_listening(self):
        self.listening.close()
        self.path(self.unit("socket", "ListenStream")[0]).unlink()

    def start_service(self, *before):
        """As pennygate.service does, with the socket as standard input."""
        [command], [user] = self.unit("service", "ExecStart"), self.unit("service", "User")
        assert self.unit("service", "StandardInput") == ["socket"]
        with open(self.directory / "log", "ab") as log:
            self.service = subprocess.Popen([*before, *self.enter, f"--userspec={user}:{user}", self.root,
                                             *command.split()], stdin=self.listening, stdout=log, stderr=log, env=PATH)

    def stop_service(self):
        """To the program, and not to the commands by which it was entered."""
        for pid in self.pids("/usr/sbin/pennygate"):
            os.kill(pid, 15)
        assert self.service.wait(60) == 0, (self.directory / "log").read_text(encoding="utf-8")

    def pids(self, program):
        """Of processes in the host that have been started as this program."""
        found = []
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                inside = os.readlink(entry / "root") == str(self.root)
                if inside and (entry / "cmdline").read_bytes().split(b"\0")[0].decode() == program:
                    found.append(int(entry.name))
            except OSError:
                pass
        return found

    def start_web(self):
        conf = self.path("etc/lighttpd/lighttpd.conf")
        text, n = re.subn(r"^server\.port\b.*$", f'server.port = {self.port}\nserver.bind = "127.0.0.1"',
                          conf.read_text(encoding="utf-8"), flags=re.M)
        assert n == 1
        # It listens on [::] as well, where there is no port of ours.
        conf.write_text(re.sub(r"^include_shell .*use-ipv6.*$", "", text, flags=re.M), encoding="utf-8")
        with open(self.directory / "web", "ab") as log:
            self.web = subprocess.Popen([*self.enter, self.root, "lighttpd", "-D", "-f", "/etc/lighttpd/lighttpd.conf"],
                                        stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until(lambda: accepts(self.port) or self.web.poll() is not None, 30, "lighttpd")
        assert self.web.poll() is None, (self.directory / "web").read_text(encoding="utf-8")

    def close(self):
        if self.service is not None:
            print((self.directory / "log").read_text(encoding="utf-8"))  # shown if a test failed
        self.first.stdin.close()
        self.first.wait(30)
        for process in (self.service, self.web):
            if process is not None:
                process.wait(30)
        shutil.rmtree(self.directory)


@pytest.fixture(scope="session")
def host(package):
    if os.geteuid() != 0:
        pytest.skip("a clean root needs root")
    made = Host(package)
    yield made
    made.close()


@pytest.fixture(scope="session")
def model():
    made = Model()
    made.reset()
    yield made
    made.stop()
