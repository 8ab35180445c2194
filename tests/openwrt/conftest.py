"""Fixtures of the tests of the OpenWrt packages; what they are made of stands in router.py."""
import importlib.util
import os
import pathlib
import shutil
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))

from router import Router  # noqa: E402

SPEC = importlib.util.spec_from_file_location(
    "e2e_fixtures", pathlib.Path(__file__).resolve().parents[1] / "e2e/conftest.py")
FIXTURES = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(FIXTURES)
practice, model, within_a_day = (getattr(FIXTURES, name) for name in ("practice", "model", "within_a_day"))
pytest_configure = FIXTURES.pytest_configure


@pytest.fixture
def router():
    if shutil.which("busybox") is None:
        pytest.skip("busybox is not installed")
    one = Router()
    yield one
    one.close()
