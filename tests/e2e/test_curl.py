"""The documented commands of curl, run as they are written, but for the host and the secret's
file."""
import json
import re
import shlex
import subprocess

import pytest

from harness import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
MANUAL = subprocess.run(["mandoc", "-T", "ascii", "gateway/pennygate-api.7"], cwd=ROOT, text=True,
                        capture_output=True, check=True).stdout
ASKS = {
    "README": re.search(r"^    (curl -N (?:.*\\\n)*.*)$", README, re.M)[1],
    "pennygate-api(7)": re.search(r"^ *\$ (curl -N (?:.*\n)*?.*\]\}')$", re.sub(".\b", "", MANUAL), re.M)[1],
}


def run(server, command):
    command, n = re.subn(r"https?://(localhost|your\.site)/", f"http://127.0.0.1:{server.port}/", command)
    assert n == 1, command
    done = subprocess.run(["bash", "-c", command.replace("sudo ", "")], text=True, capture_output=True,
                          timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("where", ASKS)
def test_a_stream_by_curl(gate, model, mode, where):
    events = [line[6:] for line in run(gate(mode), ASKS[where]).splitlines() if line.startswith("data: ")]
    assert events[-1] == "[DONE]" and model.count == 1
    text = "".join(json.loads(event)["choices"][0]["delta"].get("content", "") for event in events[:-1])
    assert text.startswith("The sea is salt because")
    assert model.last["messages"][-1]["content"] == "Hello"


def test_the_owners_own_call_by_curl(site, model):
    """The secret goes through a pipe, and is in no argument list."""
    place = site(limits={"visitor-day": {"per": "address", "unit": "calls", "window": "day", "max": 0}})
    secret = place.directory / "bypass"
    secret.write_text("a-secret-of-the-owners-0123456789\n", encoding="ascii")
    secret.chmod(0o600)
    place.own(secret)
    place.sections["bypass"] = {"secret-file": secret, "max": 50}
    place.write()
    server = place.start()
    assert server.chat().code == "address_limit"
    command = re.search(r"^    (printf 'X-Pennygate-Bypass.*curl -H @-) \.\.\.$", README, re.M)[1]
    rest = ASKS["README"].partition("curl ")[2].replace("-N ", "-sS ").replace('"stream":true,', "")
    said = run(server, command.replace("/etc/pennygate/bypass", shlex.quote(str(secret))) + " " + rest)
    assert json.loads(said)["choices"][0]["message"]["content"].startswith("The sea is salt")
    assert model.count == 1
