"""Modules that need an optional package are not collected for doctests where it is missing."""

from importlib.util import find_spec

NEEDS = {
    "src/counterplay/contribution/flower.py": "flwr",
    "src/counterplay/contribution/training/torch_networks.py": "torch",
}
collect_ignore = [path for path, package in NEEDS.items() if find_spec(package) is None]
