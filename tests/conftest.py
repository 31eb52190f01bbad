"""What all tests share: one thread a worker for tiny models, and no search for garbage among imports."""

import gc
import os
from collections.abc import Generator

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")  # pytest-xdist starts a worker a core: their threads would wait in turn


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Imports leave no garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
