"""What a shell completes besides commands and options: names of areas, studies and parties.

Nothing heavy is imported, nothing is written, and what cannot be read completes to nothing: a
reader who presses TAB wants neither to wait nor to see an error.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import wraps
from pathlib import Path
from typing import Any

Completed = list[tuple[str, str]]
"""Words and what a shell may say about each."""


def _quietly(complete: Callable[..., Completed]) -> Callable[..., Completed]:
    """Complete to nothing what cannot be read."""

    @wraps(complete)
    def completed(*given: Any, **named: Any) -> Completed:
        try:
            return complete(*given, **named)
        except Exception:
            return []

    return completed


@_quietly
def targets(incomplete: str) -> Completed:
    """Complete areas, and the studies of an area once no other begins like this."""
    from counterplay.studies.outline import outline
    from counterplay.studies.registry import area_points

    points = area_points()
    begun, slash, _ = incomplete.partition("/")
    areas = [name for name in points if name == begun or (not slash and name.startswith(begun))]
    found = [] if slash else [(name, "all studies of this area") for name in areas]
    if len(areas) == 1:
        studies = outline(points[areas[0]]).studies
        found += [(s.id, s.title) for s in studies if s.id.startswith(incomplete)]
    return found


@_quietly
def areas_with_claims(incomplete: str) -> Completed:
    """Complete areas of which something is promised."""
    from counterplay.claims import load_claims

    names = {claim.area for claim in load_claims()}
    return [(name, "") for name in sorted(names) if name.startswith(incomplete)]


@_quietly
def studies(ctx: Any, incomplete: str) -> Completed:
    """Complete ids of the studies of a studio, newest first."""
    return _rows(ctx, "SELECT public_id FROM study ORDER BY id DESC", incomplete)


@_quietly
def parties(ctx: Any, incomplete: str) -> Completed:
    """Complete ids of the parties of a studio, newest first."""
    return _rows(ctx, "SELECT public_id FROM party ORDER BY id DESC", incomplete)


@_quietly
def parties_and_studies(ctx: Any, incomplete: str) -> Completed:
    """Complete ids of the studies and parties of a studio."""
    return [*studies(ctx, incomplete), *parties(ctx, incomplete)]


def _rows(ctx: Any, query: str, incomplete: str) -> Completed:
    """Read ids from a studio of this machine; one on PostgreSQL is too far away to wait for.

    Names and labels stay out: a shell evaluates what it is told, and others chose them.
    """
    file = _named(ctx, "data", "studio") / "studio.sqlite"
    used = file.with_name(f"{file.name}-wal").exists()  # else no file may be made beside it
    address = f"{file.resolve().as_uri()}?{'mode=ro' if used else 'immutable=1'}"
    with closing(sqlite3.connect(address, uri=True, timeout=0.2)) as database:
        found = database.execute(query).fetchall()
    return [(id, "") for (id,) in found if id.isalnum() and id.startswith(incomplete)]


def _named(ctx: Any, option: str, default: str) -> Path:
    """Return what was said for an option, here or before the word of a command."""
    while ctx is not None:
        source = ctx.get_parameter_source(option)
        if source is not None and source.name == "COMMANDLINE":
            return Path(ctx.params[option])
        ctx = ctx.parent
    return Path(default)
