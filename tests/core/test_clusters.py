"""Connections to Ray clusters: refused at once where nobody answers."""

from __future__ import annotations

import sys

import pytest

from counterplay.core import clusters
from counterplay.errors import InvalidInputError, MissingDependencyError


@pytest.mark.parametrize("address", ["127.0.0.1:9", "ray://127.0.0.1:9", "127.0.0.1:99999"])
def test_an_address_where_nobody_answers_is_refused_at_once(address: str) -> None:
    with pytest.raises(InvalidInputError, match=f"no Ray cluster answers at '{address}'"):
        clusters.check_reachable(address)


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with (
        pytest.raises(MissingDependencyError, match=r"counterplay\[ray\]"),
        clusters.connected("127.0.0.1:9"),
    ):
        pass
