"""make run as a person would use it: one answer by curl, the chat page, an end without traces."""
import base64
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile

import pytest

from harness import Call, ROOT, alive, children, free_port, until


def descendants(pid):
    found = children(pid)
    return found + [one for child in found for one in descendants(child)]


@pytest.fixture
def directory():
    """One that any user can reach, as lighttpd's must."""
    made = pathlib.Path(tempfile.mkdtemp(prefix="pennygate-demo-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture
def demo(directory):
    processes = []

    def start(**env):
        processes.append(subprocess.Popen(
            ["tests/demo/run.sh"], cwd=ROOT, stdin=subprocess.DEVNULL, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={**os.environ, "PORT": str(free_port()), "RUN_DIR": str(directory / "run"), **env}))
        return processes[-1]

    yield start
    for process in processes:
        if process.poll() is None:
            process.terminate()
            process.wait(20)
        process.stdout.close()


def until_ready(process):
    lines = []
    for line in process.stdout:
        lines.append(line)
        if "Ctrl-C" in line:
            break
    return "".join(lines)


def test_run_once_shows_an_answer_and_ends(demo):
    process = demo(RUN_ONCE="1")
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    assert output.count("chat.completion.chunk") >= 10
    assert "[DONE]" in output and "Ended." in output


def test_all_of_it_is_in_its_directory(demo, directory):
    process = demo(RUN_ONCE="1")
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    assert f"Store:      {directory}/run/store\n" in output
    assert (directory / "run/store/data.mdb").exists()
    assert not (directory / "run/pid").exists()


def test_a_directory_of_somebody_else_is_not_deleted(demo, directory):
    (directory / "run").mkdir()
    (directory / "run/mine").touch()
    process = demo(RUN_ONCE="1")
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 1 and "not of an earlier run" in output
    assert (directory / "run/mine").exists()


def test_a_second_one_says_which_is_running(demo):
    first = demo()
    assert f"kill {first.pid}, ends everything" in until_ready(first)
    output, _ = demo().communicate(timeout=60)
    assert f"kill {first.pid}, ends it" in output and "Ended." not in output
    assert alive(first.pid)


def test_a_port_that_is_taken(demo):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        output, _ = demo(PORT=str(taken.getsockname()[1])).communicate(timeout=60)
    assert "lighttpd does not start:" in output and "Address already in use" in output
    assert "cat:" not in output and "Ended." in output


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_real_api_has_a_ceiling_and_its_key_from_a_file(demo, directory, model, provider):
    key = directory / "my key"
    key.write_text("sk-of-mine\n", encoding="ascii")
    process = demo(RUN_ONCE="1", DEMO_URL=f"{model.url}/v1", DEMO_MODEL="practice", DEMO_KEY_FILE=str(key),
                   DEMO_PROVIDER=provider)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    assert re.search(r"demo-tokens +everyone +tokens +day +\d+ +50000 ", output), output
    assert "at most 50000 tokens" in output and "sk-of-mine" not in output
    assert model.stats()["calls"] == 1
    assert (directory / "run/key").read_text(encoding="ascii") == "sk-of-mine\n"


def test_it_stays_until_it_is_told_and_leaves_nothing(demo):
    process = demo()
    ready = until_ready(process)
    port = int(re.search(r"Chat page: +http://127.0.0.1:(\d+)/ai/\n", ready).group(1))
    password = re.search(r"Dashboard: .*/ai/dashboard +\(any name, password (\w+)\)", ready).group(1)
    login = base64.b64encode(f"me:{password}".encode()).decode()
    page = Call(port, "GET", "/ai/dashboard", headers=[("Authorization", "Basic " + login)]).answer()
    assert page.status == 200 and b"<h1>" in page.body
    started = descendants(process.pid)
    assert len(started) >= 3, "practice model, lighttpd, pennygate"
    page = Call(port, "GET", "/").answer()
    assert page.status == 200 and b"/ai/widget.js" in page.body
    assert page.header("Content-Security-Policy") == "default-src 'self'"
    assert b"<style" not in page.body and b"onclick" not in page.body
    own = Call(port, "GET", "/ai/").answer()
    assert own.status == 200 and b"widget.js" in own.body
    assert "script-src 'self'" in own.header("Content-Security-Policy"), "the program's own"
    assert Call(port, "GET", "/ai/widget.js").answer().header("Content-Type").startswith("text/javascript")
    answer = Call(port, "POST", "/ai/v1/chat/completions",
                  b'{"stream": true, "messages": [{"role": "user", "content": "x"}]}',
                  [("Content-Type", "application/json")]).answer()
    assert answer.events()[-1] == "[DONE]"
    process.send_signal(signal.SIGTERM)
    rest, _ = process.communicate(timeout=30)
    assert "Ended." in rest
    until(lambda: not any(alive(pid) for pid in started), 10, "the end of all it started")
