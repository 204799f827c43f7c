"""Options that ``counterplay consortium`` and its private ways share."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from counterplay.errors import InvalidInputError

Model = Annotated[
    Literal["logistic", "boosting"], typer.Option(help="The model that each mixture trains.")
]
Metric = Annotated[
    Literal["accuracy", "balanced_accuracy", "neg_log_loss", "roc_auc"],
    typer.Option(help="How a model is scored."),
]
Cap = Annotated[
    list[str] | None,
    typer.Option(help="Most rows that a site gives, such as north=500; repeat the option."),
]
Drop = Annotated[list[str] | None, typer.Option(help="Column to leave out; repeat the option.")]
Flower = Annotated[Path, typer.Option(help="Folder to write a Flower app to.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the folder.")]
Seed = Annotated[int, typer.Option(help="Seed of all random numbers.", min=0)]


def numbers(values: Sequence[str] | None, what: str) -> dict[str, float] | None:
    """Read ``SITE=NUMBER`` as often as it was given."""
    pairs: dict[str, float] = {}
    for text in values or []:
        name, _, number = text.rpartition("=")
        try:
            pairs[name] = float(number)
        except ValueError:
            raise InvalidInputError(f"--{what} must be SITE=NUMBER, got {text[:60]!r}") from None
    return pairs or None


def matching(pattern: str) -> list[str]:
    """The files that a pattern names, in order."""
    found = sorted(glob.glob(pattern))
    if not found:
        raise InvalidInputError(f"no file matches {pattern[:60]!r}")
    return found
