"""Fixtures of the tests of the OpenWrt packages; what they are made of stands in router.py."""
import os
import shutil
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))

from router import Router  # noqa: E402

from harness import Model  # noqa: E402


@pytest.fixture
def router():
    if shutil.which("busybox") is None:
        pytest.skip("busybox is not installed")
    one = Router()
    yield one
    one.close()


@pytest.fixture(scope="session")
def practice():
    model = Model()
    yield model
    model.stop()


@pytest.fixture
def model(practice):
    """The practice model with its default settings and all figures at zero."""
    practice.reset()
    return practice
