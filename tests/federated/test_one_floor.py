"""There is one of everything, and the areas show the same objects."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import counterplay.defection
import counterplay.federated
from counterplay.contribution import plan_contributions
from counterplay.contribution.plan_solvers import BRANCH_ENVY_FREE, EXACT_DIRECTED

SOURCES = Path(counterplay.federated.__file__).parents[1]


@pytest.mark.claim("23.27")
@pytest.mark.parametrize("name", ["FedAvg", "MWFed", "ADAGD", "SafeStep"])
def test_one_rule_of_each_name(name: str) -> None:
    assert getattr(counterplay.defection, name) is getattr(counterplay.federated, name)
    made = [p for p in SOURCES.rglob("*.py") if re.search(rf"^class {name}\b", p.read_text(), re.M)]
    assert [path.parent.name for path in made] == ["rules"]


@pytest.mark.claim("23.27")
def test_clients_read_one_key() -> None:
    texts = {path.name: path.read_text() for path in SOURCES.rglob("*.py")}
    assert not [name for name, text in texts.items() if "local-batches" in text]
    client = SOURCES / "federated" / "flower" / "client.py"
    assert 'config.get("local-steps"' in client.read_text()


@pytest.mark.claim("23.28")
def test_docstring_guide_and_code_agree_on_how_many_parties_are_exact() -> None:
    guide = (SOURCES.parents[1] / "docs" / "areas" / "contribution.md").read_text()
    docstring = " ".join((plan_contributions.__doc__ or "").split())
    assert f"up to {EXACT_DIRECTED} parties" in docstring
    assert f"up to {BRANCH_ENVY_FREE} parties" in docstring
    assert f"up to {BRANCH_ENVY_FREE} parties" in " ".join(guide.split())
