"""What only a terminal gets, colours and progress, and what nothing gets: lines of more than 80
columns."""
import contextlib
import fcntl
import json
import os
import pty
import re
import select
import subprocess
import time

import pytest

from harness import MOUNT, limit, until

NAME = "a-name-of-thirty-one-letters-xy"
OTHER = "b-name-of-thirty-one-letters-xy"
GONE = "\r\x1b[K"  # the line is taken away


class Terminal:
    """A command with a terminal as its standard error, its output, or both."""

    def __init__(self, site, *arguments, output=True, errors=True, **env):
        self.fd, slave = pty.openpty()
        self.shown = b""
        self.process = subprocess.Popen(
            [site.program, *arguments, "-c", site.config], stdin=subprocess.DEVNULL,
            stdout=slave if output else subprocess.PIPE, stderr=slave if errors else subprocess.PIPE,
            env=site.environment(**{"TERM": "xterm", **env}))
        os.close(slave)

    def read(self):
        """All that has been shown so far; empty reads at the end are no failure."""
        while select.select([self.fd], [], [], 0)[0]:
            try:
                piece = os.read(self.fd, 65536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            self.shown += piece
        return self.shown.decode().replace("\r\n", "\n")

    def ended(self, status=0):
        """Everything shown, and what came through the pipe."""
        piped = b""
        if self.process.stdout:
            piped = self.process.stdout.read()
        until(lambda: self.read() is not None and self.process.poll() is not None, 60, "the end")
        shown = self.read()
        os.close(self.fd)
        assert self.process.returncode == status, shown
        return shown, piped.decode()

    def wait_for(self, text):
        until(lambda: text in self.read(), 20, f"'{text}' on the terminal")


def without_progress(shown):
    """What is left of it once the progress is gone."""
    return "".join(part.split(GONE)[-1] if GONE in part else part for part in shown.split("\n"))


# ---- colours -------------------------------------------------------------------------------


@pytest.fixture
def faulty(site):
    place = site()
    place.limits["spend"] = {**limit("everyone", "cost", "day", "$0.00"), "max": "$0.00001"}
    place.write()
    return place


def test_faults_are_red_on_a_terminal(faulty):
    shown, _ = Terminal(faulty, "check", errors=False).ended(1)
    assert "\x1b[31mFAULT\x1b[0m       " in shown
    assert re.sub(r"\x1b\[\d+m", "", shown) == faulty.run("check", check=False).stdout


@pytest.mark.parametrize("why, env", [("unwanted", {"NO_COLOR": "1"}), ("dumb", {"TERM": "dumb"}),
                                      ("no word of what it is", {"TERM": ""})])
def test_no_colours_on_such_a_terminal(faulty, why, env):
    shown, _ = Terminal(faulty, "check", errors=False, **env).ended(1)
    assert "FAULT" in shown and "\x1b" not in shown, why


def test_an_empty_no_color_means_nothing(faulty):
    assert "\x1b[31m" in Terminal(faulty, "check", errors=False, NO_COLOR="").ended(1)[0]


def test_no_colours_through_a_pipe(faulty):
    assert "\x1b" not in faulty.run("check", check=False, TERM="xterm").stdout
    _, piped = Terminal(faulty, "check", output=False).ended(1)
    assert "FAULT" in piped and "\x1b" not in piped


def test_a_budget_that_is_nearly_or_wholly_used(gate):
    server = gate(limits={"five": limit("everyone", "calls", "day", 5), "four": limit("everyone", "calls", "day", 4)})
    for _ in range(4):
        assert server.chat().status == 200
    server.site.settled()
    shown, _ = Terminal(server.site, "stats", errors=False).ended()
    assert re.search(r"^five +everyone +calls +day\x1b\[33m +4\x1b\[0m +5 ", shown, re.M)
    assert re.search(r"^four +everyone +calls +day\x1b\[31m +4\x1b\[0m +4 ", shown, re.M)
    assert re.search(r"^site-day +everyone +calls +day +4 ", shown, re.M)
    assert "\x1b" not in server.site.run("stats", TERM="xterm")
    assert "\x1b" not in Terminal(server.site, "stats", errors=False, NO_COLOR="1").ended()[0]
    assert "\x1b" not in Terminal(server.site, "stats", "--json", errors=False).ended()[0]


# ---- progress ------------------------------------------------------------------------------


def test_check_through_shows_that_it_goes_on(gate):
    server = gate()
    url = f"http://127.0.0.1:{server.port}{MOUNT}"
    asked = Terminal(server.site, "check", "--through", url, "--silence", "2", output=False)
    asked.wait_for("\rasking for streams and silence, ")
    shown, piped = asked.ended()
    assert shown.endswith(GONE) and "\n" not in shown
    assert "asking" not in piped and "\x1b" not in piped and "0 faults" in piped


def test_progress_is_gone_from_a_terminal_that_shows_both(gate):
    server = gate()
    url = f"http://127.0.0.1:{server.port}{MOUNT}"
    shown, _ = Terminal(server.site, "check", "--through", url, "--silence", "0").ended()
    assert "asking" not in without_progress(shown)
    assert f"{url}\n\n" in shown


@pytest.fixture
def keeping(site):
    """A site that has kept more transcripts than a pipe takes."""
    place = site(init=False, request={"max-message-chars": "60000", "max-input-chars": "60000"})
    place.sections["transcripts"] = {"keep": "yes"}
    place.write()
    server = place.init().start()
    for _ in range(4):
        assert server.chat("x" * 50000).status == 200
    until(lambda: len(place.run("transcripts", "export").splitlines()) == 4, 10, "the transcripts")
    return place


def test_export_counts_beside_its_output(keeping):
    asked = Terminal(keeping, "transcripts", "export", output=False)
    asked.wait_for("\rreading transcripts: ")  # it waits: nobody reads what it writes
    shown, piped = asked.ended()
    assert shown.endswith(GONE)
    assert [json.loads(line)["result"] for line in piped.splitlines()] == ["ok"] * 4


def test_an_export_to_a_terminal_is_its_own_progress(keeping):
    shown, _ = Terminal(keeping, "transcripts", "export").ended()
    assert "\x1b" not in shown and len(shown.splitlines()) == 4


@contextlib.contextmanager
def held(path, lock):
    fd = os.open(path, os.O_RDWR if path.is_file() else os.O_RDONLY)
    lock(fd)
    try:
        yield
    finally:
        os.close(fd)


def test_erasing_shows_that_it_goes_on(keeping):
    with held(keeping.store / "transcripts", lambda fd: fcntl.flock(fd, fcntl.LOCK_EX)):
        asked = Terminal(keeping, "transcripts", "erase", "--all", output=False)
        asked.wait_for("\rerasing transcripts, ")
    shown, piped = asked.ended()
    assert shown.endswith(GONE) and piped == "erased all transcripts\n"


def test_opening_a_store_shows_that_it_goes_on(site):
    place = site()
    with held(place.store / "lock.mdb", lambda fd: fcntl.lockf(fd, fcntl.LOCK_EX)):
        asked = Terminal(place, "stats", "--json", output=False)
        asked.wait_for("\ropening the store, ")
    shown, piped = asked.ended()
    assert shown.endswith(GONE) and json.loads(piped)["open_streams"] == 0


def test_no_progress_where_nobody_looks(site):
    place = site()
    with held(place.store / "lock.mdb", lambda fd: fcntl.lockf(fd, fcntl.LOCK_EX)):
        running = [Terminal(place, "pause", output=False, errors=False),
                   Terminal(place, "pause", output=False, TERM="dumb")]
        began = time.monotonic()
        until(lambda: time.monotonic() > began + 1, 5, "a second in which it would show")
    assert [one.ended()[0] for one in running] == ["", ""]
    assert running[0].process.stderr.read() == b""


# ---- 80 columns ----------------------------------------------------------------------------


def narrow(text):
    wide = [line for line in text.splitlines() if len(line) > 80]
    assert not wide, "\n".join(wide)
    return text


@pytest.fixture
def longest(site):
    """Names of 31 letters and the largest amounts that anybody would write."""
    most = {"calls": 10**15, "tokens": 10**15, "cost": "$1000000", "concurrent": 10**15}
    names = iter(f"{i:02}{NAME[2:]}" for i in range(99))
    limits = {next(names): {**limit(per, unit, None if unit == "concurrent" else "31535999s", maximum),
                            "dry-run": dry}
              for per in ("everyone", "anonymous", "address")
              for unit, maximum in most.items() for dry in ("yes", "no")}
    place = site(init=False, limits={**limits, "site-day": limit("everyone", "calls", "day", 10**15)},
                 models={NAME: {"fallback": "demo"}, OTHER: {}})
    place.write()
    return place.init()


def test_tables_keep_to_80_columns(longest):
    for i, words in enumerate((["calls/31535999s", "tokens/31535999s", "cost/31535999s"], [])):
        flags = [f"--limit={word}={'$1000000' if 'cost' in word else 10**15}" for word in words]
        longest.run("keys", "add", [NAME, OTHER][i], *flags)
    for command in (["check"], ["stats"], ["keys", "list"], ["clock"], ["pause"], ["resume"],
                    ["stats", "--days", "400"], ["forgive", "everyone"], ["forgive", "key", NAME],
                    ["forgive", "model", OTHER], ["transcripts", "list"], ["clock", "reset"],
                    ["maintain"], ["keys", "revoke", NAME], ["adopt"]):
        narrow(longest.run(*command))
        assert command != ["check"] or NAME[2:] in longest.run(*command)


def test_tables_of_a_used_site_keep_to_80_columns(longest):
    server = longest.start()
    for _ in range(2):
        assert server.chat(fields={"model": OTHER}).status == 200
    longest.settled()
    out = narrow(longest.run("stats"))
    assert "would have refused" in out and "used $0.000" in out


def test_a_check_through_keeps_to_80_columns(gate):
    server = gate()
    narrow(server.site.run("check", "--through", f"http://127.0.0.1:{server.port}{MOUNT}", "--silence", "0"))


def test_transcripts_list_keeps_to_80_columns(site):
    place = site(init=False, options={"trusted-proxies": ["127.0.0.1"]}, models={NAME: {}})
    place.sections["transcripts"] = {"keep": "yes", "subject": "address"}
    place.write()
    server = place.init().start()
    headers = [("X-Forwarded-For", "2001:db8:1234:5678:9abc:def0:1234:5678")]
    assert server.chat("word " * 100, headers=headers, fields={"model": NAME}).status == 200
    out = until(lambda: place.run("transcripts", "list"), 10, "the transcript")
    assert "\n    2001:db8:1234:5678:9abc:def0:1234:5678\n" in narrow(out)
