"""The promises of the library, read from ``claims.toml``."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources

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
