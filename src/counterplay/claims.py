"""The promises of the library, read from ``claims.toml``."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

from counterplay.errors import InvalidInputError

_ID = re.compile(r"\d\d\.\d\d[a-z]?")


@dataclass(frozen=True, order=True)
class Claim:
    """One promise: an id such as ``09.03``, the area, a sentence and the theorem behind it."""

    id: str
    area: str
    statement: str
    source: str


@cache
def load_claims() -> tuple[Claim, ...]:
    """Return every claim, ordered by id.

    Examples
    --------
    >>> any(claim.id == "09.01" for claim in load_claims())
    True
    """
    text = resources.files("counterplay").joinpath("claims.toml").read_text(encoding="utf-8")
    return parse_claims(text)


def parse_claims(text: str) -> tuple[Claim, ...]:
    """Parse the TOML text; raises when an entry is incomplete or an id occurs twice."""
    claims: dict[str, Claim] = {}
    for entry in tomllib.loads(text).get("claim", []):
        missing = {"id", "area", "statement", "source"} - entry.keys()
        if missing:
            raise InvalidInputError(
                f"claim {entry.get('id', '?')} lacks {', '.join(sorted(missing))}"
            )
        claim = Claim(**entry)
        if not _ID.fullmatch(claim.id):
            raise InvalidInputError(f"claim id {claim.id!r} must look like 09.03")
        if claim.id in claims:
            raise InvalidInputError(f"claim {claim.id} is listed twice")
        claims[claim.id] = claim
    return tuple(sorted(claims.values()))


@cache
def tests_of_claims() -> dict[str, list[str]]:
    """Return the tests of every claim: from the list in an installed package, or from a checkout.

    A copy of the package alone, without either, knows of none.
    """
    listed = resources.files("counterplay").joinpath("claim_tests.json")
    if listed.is_file():
        found: dict[str, list[str]] = json.loads(listed.read_text(encoding="utf-8"))
        return found
    folder = Path(__file__).resolve().parents[2] / "tests"
    return claim_tests(folder) if (folder / "claims_plugin.py").is_file() else {}


def claim_tests(folder: Path) -> dict[str, list[str]]:
    """Return, for every claim id, the tests marked with it, found without importing them."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(folder.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if ".claim(" not in text:  # parsing is what takes the time
            continue
        where = path.relative_to(folder.parent).as_posix()
        tree = ast.parse(text)
        for claim in _module_claims(tree):
            found[claim].append(where)
        for name, node in _functions(tree.body):
            for claim in _claims_in(node.decorator_list):
                found[claim].append(f"{where}::{name}")
    return {claim: list(dict.fromkeys(names)) for claim, names in found.items()}


def _functions(
    body: list[ast.stmt], prefix: str = ""
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield prefix + node.name, node
            if isinstance(node, ast.ClassDef):
                yield from _functions(node.body, f"{prefix}{node.name}::")


def _module_claims(tree: ast.Module) -> list[str]:
    marks = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and any(isinstance(t, ast.Name) and t.id == "pytestmark" for t in node.targets)
    ]
    return _claims_in(marks)


def _claims_in(nodes: list[ast.expr]) -> list[str]:
    """Return the ids of every ``pytest.mark.claim(...)`` inside the expressions."""
    ids = []
    for node in nodes:
        for call in ast.walk(node):
            if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
                continue
            if call.func.attr == "claim":
                ids += [a.value for a in call.args if isinstance(a, ast.Constant)]
    return [str(claim) for claim in ids]
