"""Settings of the whole test run.

Modules that need an optional package are not collected for doctests where it is missing. Property
tests draw the same examples in every run and have no deadline: compiled code is slow when first
called.
"""

from importlib.util import find_spec

NEEDS = {
    "src/counterplay/contribution/flower.py": "flwr",
    "src/counterplay/contribution/training/torch_networks.py": "torch",
}
collect_ignore = [path for path, package in NEEDS.items() if find_spec(package) is None]

if find_spec("hypothesis") is not None:
    from hypothesis import settings

    settings.register_profile("counterplay", deadline=None, derandomize=True)
    settings.load_profile("counterplay")
