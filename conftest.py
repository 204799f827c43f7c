"""Settings of the whole test run.

Modules that need an optional package are not collected for doctests where it is missing. Property
tests draw the same examples in every run and have no deadline: compiled code is slow when first
called. What collection has made stays until the end, so the garbage collector need not look at it
again and again. Some compiled libraries switch the processor to "subnormal numbers are zero" for
the whole process; every test starts with ordinary floating point again.
"""

import gc
from importlib.util import find_spec

import pytest

pytest_plugins = ["claims_plugin"]

NEEDS = {
    "src/counterplay/defection/flower.py": "flwr",
    "src/counterplay/federated/flower": "flwr",
    "src/counterplay/federated/modules.py": "torch",
}
collect_ignore = [path for path, package in NEEDS.items() if find_spec(package) is None]
collect_ignore.append("src/counterplay/studio/store/migrations/env.py")  # Alembic runs it
if find_spec("sqlalchemy") is None or find_spec("fastapi") is None:
    collect_ignore.append("src/counterplay/studio")

if find_spec("hypothesis") is not None:
    from hypothesis import settings

    settings.register_profile("counterplay", deadline=None, derandomize=True)
    settings.load_profile("counterplay")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes long in one piece, so that no worker is left with it at the end."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def pytest_collection_finish() -> None:
    """Take the thousands of collected tests out of every later garbage collection."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def ordinary_floats() -> None:
    """Undo what another library may have done to the processor's floating-point mode."""
    smallest = 5e-324
    if smallest * 1.0 == 0.0 and find_spec("torch") is not None:
        import torch

        torch.set_flush_denormal(False)
