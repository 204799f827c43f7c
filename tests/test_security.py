"""What SECURITY.md says about our own code, read from its syntax."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import counterplay

SOURCES = sorted(Path(counterplay.__file__).parent.rglob("*.py"))
NEVER = {"eval", "exec", "compile", "__import__"}
FLAGGED = {  # behind trust_pickle=True, tested there
    ("saved_partition.py", "pickle", "loads"),
    ("models.py", "joblib", "load"),
}
LOADERS = {("pickle", "load"), ("pickle", "loads"), ("joblib", "load"), ("torch", "load")}


@functools.cache
def calls() -> list[tuple[str, str, str, ast.Call]]:
    """File, owner (or nothing) and name of every call in the package."""
    found = []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            if isinstance(node.func, ast.Name):
                found.append((path.name, "", node.func.id, node))
            elif isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
                found.append((path.name, node.func.value.id, node.func.attr, node))
    assert len(found) > 10_000  # the walk sees the package
    return found


def test_no_text_is_run_as_code() -> None:
    found = [(file, name) for file, owner, name, _ in calls() if not owner and name in NEVER]
    assert found == []


def test_nothing_is_unpickled_behind_the_users_back() -> None:
    loads = [(file, owner, name) for file, owner, name, _ in calls() if (owner, name) in LOADERS]
    assert set(loads) <= FLAGGED
    for file, _, name, call in calls():
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        if name == "load" and "allow_pickle" in given:
            flag = given["allow_pickle"]
            assert ast.unparse(flag) == "False", file
