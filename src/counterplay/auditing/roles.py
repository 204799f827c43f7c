"""Whether the config fits the table: roles, moves and costs name columns that are there."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from counterplay.auditing.config import Config
from counterplay.errors import CounterplayWarning, InvalidInputError
from counterplay.tables.cells import nearest, shown


def check_roles(config: Config, frame: pd.DataFrame) -> None:
    """Refuse roles, moves and costs on columns that are not there."""
    known = [str(column) for column in frame.columns]
    for key, names in config.columns.named().items():
        for name in names:
            if name not in known:
                raise InvalidInputError(
                    f"[columns] {key}: {shown(name, 60)} names no column{_near(name, known)}."
                )
    for name in config.movable:
        where = f"[movable.{name[:60]}]"
        if name not in known:
            raise InvalidInputError(f"{where} names no column{_near(name, known)}.")
        if name == config.data.label:
            raise InvalidInputError(f"{where} is the outcome: nobody can move it.")
        if name in config.columns.text:
            raise InvalidInputError(f"{where} is free text: moves are for numbers and categories.")
        if name in (*config.columns.fixed, *config.columns.id):
            raise InvalidInputError(f"{where} is fixed or an id in [columns]: it is one or other.")
    for key in ("false_accept", "false_reject"):
        cost = getattr(config.costs, key)
        if isinstance(cost, str) and cost not in known:
            raise InvalidInputError(
                f"[costs] {key} = {shown(cost, 60)} is no number and names no "
                f"column{_near(cost, known)}."
            )


def check_moves(config: Config, frame: pd.DataFrame, train: pd.DataFrame | None = None) -> None:
    """Read the moves once, so that a mistake in them is told before the run."""
    if not config.movable:
        return
    from counterplay.strategic import Moves

    Moves.from_toml(
        config.moves_content(), reference=frame, codes=config.data.special_codes or None
    )
    for name, entry in config.movable.items():
        table = entry.get("switch") if isinstance(entry, Mapping) else None
        if table:
            tables = [part for part in (frame, train) if part is not None and name in part]
            known = {str(v) for part in tables for v in part[name].dropna().unique().tolist()}
            _check_targets(name, table, sorted(known))


def _check_targets(name: str, table: Mapping[str, Any], known: Sequence[str]) -> None:
    """Refuse a switch to a category that no row has: no model has learned what it means.

    A switch from such a category is harmless, but perhaps misspelt: that is a warning.
    """
    for source, targets in table.items():
        if str(source) not in known:
            warnings.warn(
                f"[movable.{name[:60]}] switch from {shown(source, 40)}: no row has that "
                f"value{nearest(str(source), known)}, so nobody makes this move.",
                CounterplayWarning,
                stacklevel=2,
            )
        for target in targets:
            if str(target) not in known:
                raise InvalidInputError(
                    f"[movable.{name[:60]}] switch from {shown(source, 40)} to "
                    f"{shown(target, 40)}: no row has that value{nearest(str(target), known)}."
                )


def _near(name: str, known: Sequence[str]) -> str:
    return nearest(name[:200], known).replace("'", "")
