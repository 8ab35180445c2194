"""Transcripts: what is kept, for whom, for how long, and that nothing of it ever touches an
answer."""
import contextlib
import datetime
import glob
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from harness import PATIENCE, ROOT, until

QUESTION = "Why is the sea salt?"
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root for a mount or another's files")


@pytest.fixture
def keeping(site):
    """A site that keeps transcripts, with further options of the section."""

    def make(**options):
        place = site(init=False)
        place.sections["transcripts"] = {"keep": "yes", **options}
        place.write()
        return place.init()

    return make


def exported(place):
    return [json.loads(line) for line in place.run("transcripts", "export").splitlines()]


def kept(place, n):
    """The transcripts, once there are so many: they are written after the answer."""
    until(lambda: len(exported(place)) >= n, 10, f"{n} transcripts")
    assert len(exported(place)) == n
    return exported(place)


def log_words(server, n=1):
    """The last n lines of requests, as dictionaries."""
    def lines():
        found = [line for line in server.log().splitlines() if " id=chatcmpl-" in line]
        return found if len(found) >= n else None
    return [dict(re.findall(r"(\w+)=(\S+)", line)) for line in until(lines, 5, "the log")[-n:]]


def directory(place):
    return place.store / "transcripts"


def bytes_of(place, *servers):
    """Every byte of the archive's files, and of those that a gateway still holds open."""
    for server in servers:
        server.at_rest()
    found = b""
    paths = [str(path) for path in directory(place).rglob("*") if path.is_file()]
    paths += [path for server in servers for pid in server.gateways() for path in glob.glob(f"/proc/{pid}/fd/*")]
    for path in paths:
        with contextlib.suppress(FileNotFoundError):  # closed or removed meanwhile
            if "/transcripts/" in os.path.realpath(path):
                found += pathlib.Path(path).read_bytes()
    return found


def test_off_by_default_and_then_there_is_no_file(gate, mode):
    server = gate(mode)
    for stream in (False, True):
        assert server.chat(stream=stream).status == 200
    server.stop()
    assert not directory(server.site).exists()
    assert server.site.run("transcripts", "list") == ""
    assert server.site.run("transcripts", "export") == ""
    assert server.site.run("transcripts", "erase", "--all") == "erased all transcripts\n"
    assert not directory(server.site).exists()


@pytest.mark.parametrize("stream", [False, True])
def test_what_is_kept_of_an_answer(keeping, model, mode, stream):
    place = keeping()
    server = place.start(mode)
    talk = [{"role": "user", "content": "Hä?"}, {"role": "assistant", "content": "Salt."},
            {"role": "user", "content": QUESTION}]
    answer = server.chat(talk, stream=stream)
    assert answer.status == 200
    one, = kept(place, 1)
    line, = log_words(server)
    assert one["messages"] == talk and one["answer"] == answer.text and not one["cut"]
    assert (one["id"], one["subject"], one["model"], one["result"]) == (
        line["id"], line["subject"], "demo", "ok")
    assert re.fullmatch("[0-9a-f]{16}", one["subject"])
    assert [one["tokens_in"], one["tokens_out"]] == [int(line["in"]), int(line["out"])]
    assert abs(one["time_ms"] / 1000 - datetime.datetime.now().timestamp()) < 60
    assert directory(place).stat().st_mode & 0o7777 == 0o700
    assert all(path.stat().st_mode & 0o7777 == 0o600 for path in directory(place).iterdir())
    assert directory(place).owner() == place.store.owner()


def test_the_plain_address_on_request(keeping):
    place = keeping(subject="address")
    server = place.start()
    assert server.chat().status == 200
    one, = kept(place, 1)
    assert one["subject"] == "127.0.0.1"
    server.stop()
    assert "127.0.0.1" not in server.log()


def test_the_subject_is_hashed_also_where_the_log_is_silent(keeping):
    place = keeping()
    place.log["level"] = "error"
    place.write()
    server = place.start()
    assert server.chat().status == 200
    one, = kept(place, 1)
    assert re.fullmatch("[0-9a-f]{16}", one["subject"])
    server.stop()


def test_what_is_refused_before_the_call_is_not_kept(keeping, model):
    place = keeping()
    server = place.start()
    assert server.chat("x" * 5000).status == 400
    place.run("pause")
    assert server.chat().code == "paused"
    place.run("resume")
    assert server.chat("the only one").status == 200
    one, = kept(place, 1)
    assert one["messages"][0]["content"] == "the only one"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("settings, result, text", [
    ({"status": 500}, "upstream_error", False),
    ({"status": 429}, "upstream_refused", False),
    ({"cut": "middle"}, "upstream_error", True),
])
def test_an_answer_that_fails_is_kept_with_what_came(keeping, model, stream, settings, result, text):
    place = keeping()
    server = place.start()
    model.set(**settings)
    server.chat(stream=stream)
    one, = kept(place, 1)
    assert one["result"] == result
    assert one["messages"] == [{"role": "user", "content": QUESTION}]
    assert bool(one["answer"]) == (text and stream)


def test_of_a_caller_who_leaves_what_had_come_is_kept(keeping, model):
    place = keeping()
    server = place.start()
    model.set(gap_ms=50, chunks=100)
    call = server.begin(stream=True)
    call.wait_for(b'"content":"')
    call.close()
    one, = kept(place, 1)
    assert one["result"] == "gone" and one["answer"]


def test_those_of_several_processes_are_all_kept(keeping, model):
    place = keeping()
    place.server["streams"] = 32
    place.write()
    server = place.start(procs=3)
    calls = [server.begin(f"question {i}") for i in range(30)]
    assert all(call.answer().status == 200 for call in calls)
    questions = sorted(one["messages"][0]["content"] for one in kept(place, 30))
    assert questions == sorted(f"question {i}" for i in range(30))


def test_a_stop_writes_what_waits(keeping, model):
    place = keeping()
    server = place.start()
    assert all(server.chat().status == 200 for _ in range(10))
    server.stop()
    assert len(exported(place)) == 10


# ---- the owner's commands ----

HOSTILE = "\x1b]0;owned\x07\x1b[2J\r\nrow\\two\u202etxt.exe\u0085\x7f " + "long " * 40


def test_list_and_show_escape_what_a_terminal_obeys(keeping, model):
    place = keeping()
    server = place.start()
    model.set(text="answer \x1b[31mred")
    assert server.chat(HOSTILE).status == 200
    one, = kept(place, 1)
    assert one["messages"][0]["content"] == HOSTILE
    listed = place.run("transcripts", "list")
    shown = place.run("transcripts", "show", one["id"])
    for text in (listed, shown):
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text), text
        assert r"\x1b[2J" in text or text is listed
    first, second = listed.splitlines()
    assert len(first) <= 80 and len(second) <= 80
    assert re.fullmatch(rf"\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d  {one['id']}  {one['subject']}", first)
    assert second.startswith(f"    demo ok {one['tokens_in']}+{one['tokens_out']}  \\x1b]0;owned")
    assert r"\x1b[31mred" in shown and r"\u{202e}" in shown and "    row\\two" in shown


def test_the_newest_is_last(keeping, model):
    place = keeping()
    server = place.start()
    for i in range(3):
        assert server.chat(f"question {i}").status == 200
        kept(place, i + 1)
    listed = place.run("transcripts", "list").splitlines()
    assert [line.split("  ")[-1] for line in listed[1::2]] == [f"question {i}" for i in range(3)]
    assert [json.loads(line) for line in place.run("transcripts", "list", "--json", "--days", "1").splitlines()
            ] == exported(place)
    shown = place.run("transcripts", "show", exported(place)[1]["id"], "--json")
    assert json.loads(shown) == exported(place)[1]


@pytest.mark.parametrize("words", [
    [], ["lost"], ["list", "x"], ["show"], ["show", "a", "b"], ["erase"], ["erase", "x", "--all"],
    ["erase", "--all", "--before", "2026-01-01"], ["erase", "--before", "yesterday"],
    ["erase", "--before", "2026-02-30"], ["export", "--json"], ["list", "--days", "0"], ["list", "--all"],
    ["show", "x", "--days", "3"],
])
def test_what_is_not_understood(keeping, words):
    done = keeping().run("transcripts", *words, check=False)
    assert done.returncode == 2 and done.stdout == ""


def test_an_id_that_is_not_there(keeping):
    place = keeping()
    for what in ("show", "erase"):
        done = place.run("transcripts", what, "chatcmpl-0", check=False)
        assert done.returncode == 1 and "no transcript chatcmpl-0" in done.stderr


@pytest.mark.parametrize("mode", ["spawned", "cgi"])
def test_what_is_erased_is_gone_while_gateways_run(keeping, model, mode):
    """Not only the row: LMDB would leave its bytes in the file."""
    place = keeping()
    server = place.start(mode, procs=2)
    for i in range(12):
        assert server.chat(f"SECRETWORD{i % 3} " * 20).status == 200
    ids = [one["id"] for one in kept(place, 12) if "SECRETWORD1" in one["messages"][0]["content"]]
    assert b"SECRETWORD1" in bytes_of(place)
    for one in ids:
        assert place.run("transcripts", "erase", one) == "erased 1 transcript\n"
    assert b"SECRETWORD1" not in bytes_of(place, server)
    assert b"SECRETWORD2" in bytes_of(place)
    assert server.chat("afterwards").status == 200
    kept(place, 9)
    assert b"SECRETWORD1" not in bytes_of(place, server)
    subject = exported(place)[0]["subject"]
    assert place.run("transcripts", "erase", "--subject", "0" * 16) == "erased 0 transcripts\n"
    assert place.run("transcripts", "erase", "--subject", subject) == "erased 9 transcripts\n"
    assert b"SECRETWORD" not in bytes_of(place, server)
    assert server.chat("once more").status == 200
    kept(place, 1)
    assert place.run("transcripts", "erase", "--all") == "erased all transcripts\n"
    assert b"once more" not in bytes_of(place, server)
    assert exported(place) == []
    assert server.chat("a new one").status == 200
    kept(place, 1)


def test_erasing_by_date(keeping, model):
    place = keeping()
    server = place.start()
    assert server.chat().status == 200
    one, = kept(place, 1)
    today = one["time"][:10]
    tomorrow = str(datetime.date.fromisoformat(today) + datetime.timedelta(days=1))
    assert place.run("transcripts", "erase", "--before", today) == "erased 0 transcripts\n"
    assert place.run("transcripts", "erase", "--before", tomorrow) == "erased 1 transcript\n"


def test_maintain_removes_what_is_too_old(keeping, model):
    place = keeping(**{"keep-for": "2d"})
    server = place.start()
    assert server.chat().status == 200
    kept(place, 1)
    server.stop()
    offset = place.directory / "offset"
    place.env = {"LD_PRELOAD": shutil.copy(ROOT / "build/clock-shim.so", place.directory),
                 "CLOCK_SHIM": str(offset)}
    for days, left in ((1, 1), (3, 0)):
        offset.write_text(str(days * 86400 * 1000), encoding="ascii")
        offset.chmod(0o644)
        place.run("maintain")
        assert len(exported(place)) == left


# ---- faults: the answers stay as they are ----

def put_a_file(place):
    directory(place).touch()


def open_to_others(place):
    directory(place).mkdir()
    place.own(directory(place))
    directory(place).chmod(0o777)


def not_writable(place):
    directory(place).mkdir(mode=0o500)
    place.own(directory(place))


def garbage(place):
    directory(place).mkdir(mode=0o700)
    place.own(directory(place))
    for name in ("data.mdb", "lock.mdb"):
        (directory(place) / name).write_bytes(b"\xaa" * 40000)
        (directory(place) / name).chmod(0o600)
        place.own(directory(place) / name)


def a_link(place):
    directory(place).symlink_to(place.directory)


def another_users(place):
    directory(place).mkdir(mode=0o700)


@pytest.mark.parametrize("mode", ["spawned", "cgi"])
@pytest.mark.parametrize("harm", [
    put_a_file, open_to_others, not_writable, garbage, a_link,
    pytest.param(another_users, marks=as_root)])
def test_an_archive_that_cannot_be_written_changes_no_answer(keeping, model, harm, mode):
    place = keeping()
    harm(place)
    server = place.start(mode)
    for stream in (False, True, False, True):
        answer = server.chat(stream=stream)
        assert answer.status == 200 and answer.text
    until(lambda: "transcripts are not kept" in server.log(), 5, "a line of the log")
    assert place.settled()["settled"] == 4
    server.stop()
    if mode == "spawned":
        assert server.log().count("transcripts are not kept") == 1


def test_a_damaged_archive_is_made_anew_by_erasing_it(keeping, model):
    place = keeping()
    garbage(place)
    server = place.start()
    assert server.chat().status == 200
    until(lambda: "transcripts erase --all" in server.log(), 5, "the way out")
    assert place.run("transcripts", "list", check=False).returncode == 1
    assert place.run("transcripts", "erase", "--all") == "erased all transcripts\n"

    def works():
        assert server.chat().status == 200
        return exported(place)
    until(works, 20, "the next try")


@pytest.mark.parametrize("mode", ["spawned", "cgi"])
def test_an_archive_that_is_damaged_under_a_live_process(keeping, model, mode):
    place = keeping()
    server = place.start(mode)
    assert server.chat().status == 200
    kept(place, 1)
    data = directory(place) / "data.mdb"
    os.truncate(data, data.stat().st_size // 2)
    for _ in range(3):
        assert server.chat().status == 200
    # Not removed where it is: the last answer's transcript may be on its way into it.
    directory(place).rename(place.directory / "damaged")
    until(lambda: server.chat().status == 200 and exported(place), 20, "a new archive")


@as_root
@pytest.mark.parametrize("mode", ["spawned", "cgi"])
def test_a_full_disk_changes_no_answer(keeping, model, mode):
    place = keeping()
    directory(place).mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k,mode=700", "none", directory(place)], check=True)
    try:
        place.own(directory(place))
        server = place.start(mode)
        for i in range(40):
            answer = server.chat("x" * 1900, stream=i % 2 == 0)
            assert answer.status == 200 and answer.text
        until(lambda: "transcripts are not kept" in server.log(), 5, "a line of the log")
        assert place.settled()["settled"] == 40
        assert exported(place)
        server.stop()
    finally:
        subprocess.run(["umount", "-l", directory(place)], check=True)


def test_a_stuck_archive_delays_nobody(keeping, model):
    """Another process has it and does not move."""
    place = keeping()
    server = place.start()
    assert server.chat().status == 200
    kept(place, 1)
    with subprocess.Popen(["flock", "-x", directory(place), "cat"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as holder:
        holder.stdin.write(b"x\n")
        holder.stdin.flush()
        assert holder.stdout.readline() == b"x\n"
        times = []
        for _ in range(5):
            answer = server.chat()
            assert answer.status == 200
            times.append(answer.pieces[-1][0])
        assert sorted(times)[2] < 1 * PATIENCE, "one may be slow by itself, but not most"
        holder.stdin.close()
    assert place.settled()["settled"] == 6


def test_a_cgi_answer_ends_before_its_transcript_is_written(keeping, model):
    place = keeping()
    server = place.start("cgi")
    assert server.chat().status == 200
    kept(place, 1)
    with subprocess.Popen(["flock", "-x", directory(place), "cat"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as holder:
        holder.stdin.write(b"x\n")
        holder.stdin.flush()
        assert holder.stdout.readline() == b"x\n"
        answers = [server.chat(stream=True) for _ in range(5)]
        assert {answer.status for answer in answers} == {200}
        # It waits 500 ms for the archive, each time; that an answer is slow by itself is chance.
        assert min(answer.pieces[-1][0] for answer in answers) < 0.45
        holder.stdin.close()
