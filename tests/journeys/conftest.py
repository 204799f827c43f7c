"""The journeys are run as users run them, by ``tests/test_journeys.py``, not collected."""

collect_ignore_glob = ["j*.py"]
