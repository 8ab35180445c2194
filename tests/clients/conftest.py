"""The fixtures of the end-to-end tests, OpenAI's client for Node, installed below build/, and a
browser."""
import importlib.util
import json
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("e2e_fixtures", ROOT / "tests/e2e/conftest.py")
FIXTURES = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(FIXTURES)  # makes `harness` importable too
practice, model, site, gate, mode, within_a_day = (
    getattr(FIXTURES, name) for name in ("practice", "model", "site", "gate", "mode", "within_a_day"))
pytest_configure = FIXTURES.pytest_configure
HERE = ROOT / "tests/clients"
INSTALLED = ROOT / "build/sdk"


class Client:
    def __init__(self):
        self.process = subprocess.Popen(["node", HERE / "client.mjs"], cwd=INSTALLED, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def start(self, server, what="chat", path="/ai/v1", body=None, abort_after=None, abort_ms=None, **options):
        options.setdefault("baseURL", f"http://127.0.0.1:{server.port}{path}")
        job = {"what": what, "body": body or {}, "options": options, "abortAfter": abort_after, "abortMs": abort_ms}
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()

    def result(self):
        return json.loads(self.process.stdout.readline())

    def ask(self, *arguments, **options):
        self.start(*arguments, **options)
        return self.result()

    def stop(self):
        self.process.stdin.close()
        self.process.wait(10)


@pytest.fixture(scope="session")
def client():
    if not (INSTALLED / "node_modules/openai").is_dir() or shutil.which("node") is None:
        pytest.skip("OpenAI's client is not installed: tests/run-all sdk does it")
    made = Client()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """Chromium by its driver, with a profile of its own and nothing that it does by itself."""
    webdriver = pytest.importorskip("selenium.webdriver")
    from selenium.webdriver.chrome.service import Service
    driver = shutil.which("chromedriver")
    if driver is None or shutil.which("chromium") is None:
        pytest.skip("chromium or its driver is not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in ("no-sandbox", "headless", "disable-gpu", "no-first-run", "disable-background-networking",
                 "disable-component-update", "disable-sync", "disable-quic", "disable-dev-shm-usage",
                 f"user-data-dir={tmp_path_factory.mktemp('browser')}"):
        options.add_argument("--" + flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    made = webdriver.Chrome(service=Service(driver), options=options)
    made.set_page_load_timeout(30)
    made.set_script_timeout(30)
    yield made
    made.quit()
