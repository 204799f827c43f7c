"""Pytest plugin behind ``@pytest.mark.claim("09.03")``.

A marker with an id that is not in ``claims.toml`` fails the collection; when the whole suite is
collected, a claim without any test fails the run, too.
"""

from __future__ import annotations

import pytest

from counterplay.claims import load_claims


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", "claim(id): the test checks this entry of claims.toml")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--require-claims``: fail when a claim has no test."""
    parser.addoption(
        "--require-claims",
        action="store_true",
        help="fail when an entry of claims.toml is checked by no collected test",
    )


_DESELECTED = pytest.StashKey[set[str]]()


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Remember the claims of tests that are left for the slow run."""
    for item in items:
        left = item.config.stash.setdefault(_DESELECTED, set())
        left.update(claim for marker in item.iter_markers("claim") for claim in marker.args)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Compare the ids used by the collected tests with the ids of claims.toml."""
    used: dict[str, str] = {}
    for item in items:
        for marker in item.iter_markers("claim"):
            for claim_id in marker.args:
                used.setdefault(claim_id, item.nodeid)
    if not used and not config.getoption("--require-claims"):
        return
    known = {claim.id for claim in load_claims()}
    unknown = sorted(set(used) - known)
    if unknown:
        listing = ", ".join(f"{claim_id} (in {used[claim_id]})" for claim_id in unknown)
        raise pytest.UsageError(f"claims not listed in claims.toml: {listing}")
    if config.getoption("--require-claims"):
        later = config.stash.get(_DESELECTED, set())  # times are measured by slow tests only
        measured = {c.id for c in load_claims() if c.statement.startswith("Measured: ")}
        unchecked = sorted(known - set(used) - (later & measured))
        if unchecked:
            raise pytest.UsageError(f"claims without a test: {', '.join(unchecked)}")
