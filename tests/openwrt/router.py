"""A router without OpenWrt: a directory into which the package's recipe installs its files, with
every absolute path in them moved there, busybox for all commands, and stand-ins for uci, procd,
logger and the web servers' init scripts."""
import contextlib
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FEED = ROOT / "openwrt"
RECIPE = FEED / "net/pennygate"
sys.path.insert(0, str(ROOT / "tests/e2e"))

from harness import BUILT, GROUP, USER  # noqa: E402

ABSOLUTE = re.compile(r"(?<![\w.*$}@-])/(etc|var|usr|sbin|tmp)(?=/)")
KEY = "sk-router-0123456789-secret"
STUB = '#!/bin/sh\nprintf \'%s\\t%s\\n\' "$0" "$*" >>"$RECORD"\n'


def make(recipe, *arguments):
    """What make says of a recipe, by way of the stand-in for OpenWrt's rules."""
    return subprocess.run(["make", "--no-print-directory", "-s", "-C", recipe, f"TOPDIR={HERE}/sdk", *arguments],
                          check=True, capture_output=True, text=True,
                          env={"PATH": os.environ["PATH"]}).stdout


def recipe_fields(recipe, name):
    return dict(line.partition("=")[::2] for line in make(recipe, f"show-{name}").splitlines())


def install(to, program=BUILT):
    with tempfile.TemporaryDirectory() as build:
        place = pathlib.Path(build) / "build/release-small"
        place.mkdir(parents=True)
        shutil.copy(program, place / "pennygate")
        make(RECIPE, "install-pennygate", f"DEST={to}", f"PKG_BUILD_DIR={build}")


class Router:
    def __init__(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="pgw-"))
        self.root.chmod(0o755)
        install(self.root)
        for path in self.files():
            text = path.read_bytes()
            if text[:4] != b"\x7fELF":
                self.rewrite(path, text.decode("utf-8"))
        for name in ("etc/lighttpd/conf.d", "var/run", "bin", "etc/init.d", "sbin", "etc/ssl", "tmp/resolv.conf.d"):
            (self.root / name).mkdir(parents=True, exist_ok=True)
        self.link_cgi()
        self.record = self.root / "record"
        self.log_path = self.root / "log"
        self.program = self.root / "usr/sbin/pennygate"
        self.real = self.root / "bin/pennygate-real"
        self.program.rename(self.real)
        self.uci = self.root / "etc/config/pennygate"
        self.run_directory = self.root / "var/run/pennygate"
        self.conf = self.run_directory / "pennygate.conf"
        self.state = self.root / "etc/pennygate"
        self.store = self.state / "store"
        self.made = self.state / "made"
        self.wrap("")
        self.commands()

    def files(self):
        return [path for path in self.root.rglob("*") if path.is_file() and not path.is_symlink()]

    def rewrite(self, path, text):
        text = ABSOLUTE.sub(lambda match: f"{self.root}{match[0]}", text)
        group = GROUP or "none"
        for shown, real in (("root:pennygate", f"root:{group}"), ("pennygate:pennygate", f"{USER}:{group}"),
                            ("pennygate:www-data", f"{USER}:{group}"), ("--owner pennygate", f"--owner {USER}")):
            text = text.replace(shown, real)
        path.write_text(text, encoding="utf-8")

    def link_cgi(self):
        link = self.root / "usr/share/pennygate/www/cgi-bin/pennygate"
        to = os.readlink(link)
        link.unlink()
        link.symlink_to(f"{self.root}{to}")

    def wrap(self, before):
        """The program finds its configuration as the one does that was built for OpenWrt. `before`
        it runs this text of a shell."""
        text = f'''#!/bin/sh
printf 'pennygate\\t%s\\n' "$*" >>"{self.record}"
{before}
export PENNYGATE_CONFIG={self.conf}
exec {self.real} "$@"
'''
        self.program.write_text(text, encoding="utf-8")
        self.program.chmod(0o755)

    def commands(self):
        """busybox's own, as on a router, and what a router has beside them."""
        bin_directory = self.root / "bin"
        for name in subprocess.run(["busybox", "--list"], capture_output=True, text=True, check=True).stdout.split():
            (bin_directory / name).symlink_to(shutil.which("busybox"))
        (bin_directory / "logger").unlink()
        self.script("bin/logger", f'#!/bin/sh\nprintf \'%s\\n\' "$*" >>"{self.log_path}"\n')
        (bin_directory / "uci").symlink_to(HERE / "uci.py")
        for server in ("lighttpd", "uhttpd"):
            self.script(f"etc/init.d/{server}", STUB)
        (bin_directory / "lighttpd").symlink_to(shutil.which("lighttpd") or "/bin/true")
        (self.root / "etc/lighttpd/lighttpd.conf").write_text(
            f'server.document-root = "{self.root}/tmp"\ninclude "{self.root}/etc/lighttpd/conf.d/*.conf"\n',
            encoding="utf-8")
        self.record.touch(mode=0o666)
        self.record.chmod(0o666)
        self.log_path.touch(mode=0o666)
        self.log_path.chmod(0o666)

    def script(self, name, text):
        path = self.root / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)
        return path

    def environment(self):
        return {"PATH": f"{self.root}/bin", "RECORD": str(self.record), "UCI_DIRECTORY": str(self.root / "etc/config"),
                "PYTHONDONTWRITEBYTECODE": "1"}

    def shell(self, *command, prefix=(), **more):
        return subprocess.run([*prefix, shutil.which("busybox"), "ash", *command], env={**self.environment(), **more},
                              cwd=self.root, capture_output=True, text=True, errors="replace", timeout=120,
                              stdin=subprocess.DEVNULL, check=False)

    def init(self, *action, prefix=()):
        """Runs the init script: the calls that it made, since this began."""
        self.record.write_text("", encoding="utf-8")
        self.done = self.shell(HERE / "recorder.sh", self.root / "etc/init.d/pennygate", *action, prefix=prefix)
        return self.calls()

    def calls(self):
        return [line.split("\t") for line in self.record.read_text(encoding="utf-8").splitlines()]

    def called(self, name):
        """What followed the name in each of the calls of it."""
        return [call[1:] for call in self.calls() if call[0].rpartition("/")[2] == name]

    def params(self):
        return {words[0]: words[1:] for words in self.called("procd_set_param")}

    def log(self):
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def errors(self):
        """What LuCI's page shows of them."""
        path = self.run_directory / "errors"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def configure(self, main=None, model=None, limits=None, more=()):
        """Writes /etc/config/pennygate: sections as {option: text or list}, beside those that a test
        has always: a model that has a key."""
        sections = [("pennygate", "main", {"enabled": "1", "mount": "/ai", "durability": "commit", **(main or {})}),
                    ("model", "demo", {"url": "http://127.0.0.1:1/v1", "model": "practice", "key": KEY,
                                       "price_input": "1", "price_output": "2", **(model or {})}),
                    *(("limit", name, options) for name, options in (limits or {}).items()), *more]
        text = ""
        for kind, name, options in sections:
            text += f"config {kind} '{name}'\n"
            for option, value in options.items():
                for one in value if isinstance(value, list) else [value]:
                    escaped = str(one).replace("'", "'\\''")
                    text += f"\t{'list' if isinstance(value, list) else 'option'} {option} '{escaped}'\n"
        self.uci.write_text(text, encoding="utf-8")
        self.uci.chmod(0o600)

    def pennygate(self, *arguments):
        return subprocess.run([self.program, *arguments], env=self.environment(), capture_output=True, text=True,
                              timeout=60, stdin=subprocess.DEVNULL, check=False)

    def uci_get(self, path):
        return self.shell("-c", f"uci -q get {path}").stdout.strip()

    def mode(self, path):
        return stat.S_IMODE((self.root / path).stat().st_mode)

    def close(self):
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self.root)
