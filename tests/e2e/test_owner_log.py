"""Why the model API does not work is told to the owner, in one line of the log, and to nobody else."""
import json
import re

import pytest

from harness import free_port, until

KEY = "sk_live_0123456789abcdefghij"


def error(code, kind="some_type"):
    return json.dumps({"error": {"message": f"Incorrect key {KEY} of org-12", "type": kind, "param": None, "code": code}})


def lines(server):
    return [line for line in server.log().splitlines() if "level=error" in line and "model demo" in line]


def told(server):
    """The one line."""
    until(lambda: lines(server), 5, "a line for the owner")
    assert len(lines(server)) == 1, lines(server)
    return lines(server)[0]


@pytest.mark.parametrize("status, code, hint", [
    (401, "invalid_api_key", "key-file"),
    (402, "insufficient_credits", "credit"),
    (403, "unsupported_country_region_territory", "key"),
    (404, "model_not_found", "model and url"),
    (400, "unsupported_parameter", "output-field"),
    (429, "insufficient_quota", "credit"),
    (500, "engine_overloaded", "provider"),
    (302, "moved", "url"),
])
@pytest.mark.parametrize("stream", [False, True])
def test_a_status_and_its_code(site, model, status, code, hint, stream):
    server = site().start()
    model.set(status=status, error_body=error(code))
    for _ in range(3):
        answer = server.chat(stream=stream)
        assert answer.status in (502, 503)
        assert code.encode() not in answer.body and str(status).encode() not in answer.body
    line = told(server)
    assert f" {status} {code}" in line and hint in line
    assert "org-12" not in line


def test_a_status_in_a_cgi_process(site, model):
    server = site().start("cgi")
    model.set(status=401, error_body=error("invalid_api_key"))
    assert server.chat().code == "upstream_refused"
    assert " 401 invalid_api_key" in told(server)


@pytest.mark.parametrize("body", [
    error(KEY), error(KEY[3:12], kind=KEY[8:20]), error("a" * 41), error("key sk-1"), error("x\n y"),
    error({"code": KEY}), "", "{", "[]", "not json " + KEY, error("ok" * 5000),
])
def test_what_is_no_code_is_left_out(site, model, body):
    place = site(init=False)
    place.key.write_text(KEY + "\n", encoding="ascii")
    server = place.init().start()
    model.set(status=401, error_body=body)
    assert server.chat().code == "upstream_refused"
    line = told(server)
    assert re.search(r" 401( some_type)?:", line), line
    assert not any(KEY[i:i + 4] in line for i in range(len(KEY) - 3))
    server.stop()  # so that every line is in the log: others have hashes, and those four letters by chance
    assert not any(KEY[i:i + 8] in server.log() for i in range(len(KEY) - 7))
    assert "aaaa" not in line and "okok" not in line


@pytest.mark.parametrize("kind", ["before", "body"])
def test_an_error_inside_a_200(site, model, kind):
    server = site().start()
    model.set(error_in_200=kind)
    assert server.chat(stream=kind == "before").status in (502, 503)
    assert " 200" in told(server)


@pytest.mark.parametrize("url, reason, hint", [
    ("http://" + "a" * 64 + ".invalid/v1", "resolve host", "url"),
    ("http://127.0.0.1:{port}/v1", "connect to server", "url"),
])
def test_no_connection(site, model, url, reason, hint):
    server = site(demo={"url": url.format(port=free_port())}).start()
    for _ in range(3):
        assert server.chat().code == "upstream_unreachable"
    line = told(server)
    assert reason in line and hint in line


def test_a_certificate_that_is_not_believed(site, model):
    server = site(demo={"url": model.url.replace("http:", "https:") + "/v1"}).start()
    assert server.chat().code == "upstream_unreachable"
    assert "SSL" in told(server)


def test_no_answer_in_time(site, model):
    server = site(demo={"first-byte-timeout": "1s"}).start()
    model.set(hang=True)
    assert server.chat().code == "upstream_timeout"
    assert "timeout" in told(server)


def test_a_name_that_is_not_found_once_spoils_nothing(site, model):
    place = site(models={"lost": {"url": "http://" + "a" * 64 + ".invalid/v1"}})
    server = place.start()
    for _ in range(3):
        assert server.chat(fields={"model": "lost"}).code == "upstream_unreachable"
        assert server.chat().status == 200


def test_a_caller_who_leaves_is_no_trouble(site, model):
    server = site().start()
    model.set(gap_ms=50, chunks=100)
    call = server.begin(stream=True)
    call.wait_for(b'"content":"')
    call.close()
    until(lambda: model.stats()["open"] == 0, 5, "the end of the call")
    assert server.chat().status == 200
    assert not lines(server)
