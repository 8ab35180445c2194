"""make run as a person would use it: one answer by curl, the chat page, an end without traces."""
import os
import re
import signal
import subprocess

import pytest

from harness import Call, ROOT, alive, children, free_port, until


def descendants(pid):
    found = children(pid)
    return found + [one for child in found for one in descendants(child)]


@pytest.fixture
def demo(tmp_path):
    process = None

    def start(**env):
        nonlocal process
        process = subprocess.Popen(["tests/demo/run.sh"], cwd=ROOT, stdin=subprocess.DEVNULL, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   env={**os.environ, "PORT": str(free_port()),
                                        "RUN_DIR": str(tmp_path / "run"), **env})
        return process

    yield start
    if process is not None and process.poll() is None:
        process.terminate()
        process.wait(20)


def test_run_once_shows_an_answer_and_ends(demo):
    process = demo(RUN_ONCE="1")
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    assert output.count("chat.completion.chunk") >= 10
    assert "[DONE]" in output and "Ended." in output


def test_it_stays_until_it_is_told_and_leaves_nothing(demo):
    process = demo()
    lines = []
    for line in process.stdout:
        lines.append(line)
        if "Ctrl-C" in line:
            break
    port = int(re.search(r"Chat page: +http://127.0.0.1:(\d+)/", "".join(lines)).group(1))
    started = descendants(process.pid)
    assert len(started) >= 3, "practice model, lighttpd, pennygate"
    page = Call(port, "GET", "/").answer()
    assert page.status == 200 and b"chat.js" in page.body
    assert page.header("Content-Security-Policy") == "default-src 'self'"
    assert b"<style" not in page.body and b"onclick" not in page.body
    assert Call(port, "GET", "/chat.js").answer().header("Content-Type") == "text/javascript"
    answer = Call(port, "POST", "/ai/v1/chat/completions",
                  b'{"stream": true, "messages": [{"role": "user", "content": "x"}]}',
                  [("Content-Type", "application/json")]).answer()
    assert answer.events()[-1] == "[DONE]"
    process.send_signal(signal.SIGTERM)
    rest, _ = process.communicate(timeout=30)
    assert "Ended." in rest
    until(lambda: not any(alive(pid) for pid in started), 10, "the end of all it started")
