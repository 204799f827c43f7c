"""Shared games of the tests."""

from __future__ import annotations

import pytest

from counterplay.principal import LinearContractGame


@pytest.fixture
def coin() -> LinearContractGame:
    """Work pays 1 in the good state and costs a quarter."""
    return LinearContractGame(values=[[0.0, 0.0], [0.0, 1.0]], costs=[0.0, 0.25])
