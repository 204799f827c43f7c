"""One loop over every public object of the library: the common contract.

What is checked and what an area must supply is written in `contracts/README.md`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent / "contracts"))

from contract_checks import checks_for
from contract_discovery import AREAS, Unavailable, discover


def _parameters() -> list[Any]:
    found = []
    for area in AREAS:
        for entry in discover(area):
            if isinstance(entry.obj, Unavailable):
                skip = pytest.mark.skip(reason=entry.obj.reason)
                found.append(pytest.param(entry, None, id=entry.id, marks=skip))
            for check in checks_for(entry):
                name = check.__name__.removeprefix("check_")
                found.append(pytest.param(entry, check, id=f"{entry.id}-{name}"))
    return found


@pytest.mark.parametrize(("entry", "check"), _parameters())
def test_contract(entry: Any, check: Any) -> None:
    check(entry)
