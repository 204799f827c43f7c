"""Write a Flower app that trains by a plan; read its plan back strictly.

Code, TOML and file names are the same for every plan. Names of sites, columns and categories live
in ``app/plan.json`` only, which the apps read like any file from outside.
Source: "The written federation", see docs/theory/23-consortium.md.
"""

from __future__ import annotations

import json
import os
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from msgspec import Meta

from counterplay.contribution.sites.learners import MISSING, Learner, _floats, scales
from counterplay.contribution.sites.reading import MOST_SITES, check_name
from counterplay.core.files import read_limited, write_atomic
from counterplay.core.records import (
    LIMIT,
    Count,
    Name,
    Record,
    read_record,
    require_state,
)
from counterplay.core.validation import FloatArray, IntArray
from counterplay.errors import InvalidInputError, UnknownNameError
from counterplay.tables import read_table
from counterplay.tables.cells import shown

if TYPE_CHECKING:
    from counterplay.contribution.sites.result import ConsortiumPlan

FILES = (
    "pyproject.toml",
    "README.md",
    "rehearse.py",
    "app/__init__.py",
    "app/task.py",
    "app/client_app.py",
    "app/server_app.py",
)
ROOM = 0.05
"""A site is satisfied at this much above the loss that the planned rows together reach."""
Finite = Annotated[float, Meta(ge=-1e15, le=1e15)]


class AppSite(Record, frozen=True):
    """What the app knows of a site."""

    name: Name
    owned: Count
    rows: Count
    threshold: Annotated[float, Meta(gt=0.0, le=1e6)]
    path: str | None = None


class AppNumber(Record, frozen=True):
    """A column of numbers, with the centre and scale it was measured with."""

    column: Name
    centre: Finite
    scale: Annotated[float, Meta(gt=0.0, le=1e15)]


class AppWords(Record, frozen=True):
    """A column of words and the words that count."""

    column: Name
    words: Annotated[list[Name], Meta(max_length=2000)]


class AppPlan(Record, frozen=True):
    """``app/plan.json``: who brings how much, and how rows become numbers."""

    kind: Literal["counterplay consortium app"]
    version: Literal[1]
    label: Name
    classes: Annotated[list[str | int | float | bool], Meta(min_length=2, max_length=1000)]
    seed: Count
    sites: Annotated[list[AppSite], Meta(min_length=2, max_length=MOST_SITES)]
    numbers: Annotated[list[AppNumber], Meta(max_length=100_000)]
    words: Annotated[list[AppWords], Meta(max_length=100_000)]

    @property
    def width(self) -> int:
        """Number of coded columns."""
        return len(self.numbers) + sum(len(column.words) for column in self.words)


def read_plan(path: str | os.PathLike[str]) -> AppPlan:
    """Read ``plan.json``; whatever is wrong with it is one sentence."""
    what = Path(path).name
    plan = read_record(read_limited(path, what=what, limit=LIMIT), AppPlan, what=what)
    for i, site in enumerate(plan.sites):
        check_name(site.name)
        problem = f"{site.rows} rows, but it owns {site.owned}"
        require_state(site.rows <= site.owned, what, f"sites[{i}].rows", problem)
    names = {site.name for site in plan.sites}
    require_state(len(names) == len(plan.sites), what, "sites", "two sites have one name")
    require_state(plan.width > 0, what, "numbers", "there is no column to learn from")
    return plan


def coded_rows(plan: AppPlan, path: str | os.PathLike[str]) -> tuple[FloatArray, IntArray]:
    """Rows of a site's table as the plan codes them, and classes by number; no label: left out."""
    frame = read_table(Path(path)).frame
    missing = [c for c in (plan.label, *(n.column for n in plan.numbers)) if c not in frame.columns]
    missing += [w.column for w in plan.words if w.column not in frame.columns]
    if missing:
        raise InvalidInputError(f"{Path(path).name[:60]} has no column {shown(missing[0], 60)}")
    place = {str(value): code for code, value in enumerate(plan.classes)}
    label = frame[plan.label].map(lambda v: place.get(str(_plain(v)), -1)).to_numpy()
    keep = label >= 0
    blocks = [np.zeros((len(frame), 0))]
    for number in plan.numbers:
        values = _floats(frame[number.column], number.column)
        blocks.append(np.nan_to_num((values - number.centre) / number.scale)[:, None])
    for column in plan.words:
        series = frame[column.column]
        text = series.astype(object).where(series.notna(), MISSING).astype(str).to_numpy()
        levels = np.array(column.words, dtype=object)
        blocks.append((text[:, None] == levels[None, :]).astype(np.float64))
    return np.hstack(blocks)[keep], label[keep].astype(np.int64)


def write_project(
    plan: ConsortiumPlan, folder: str | os.PathLike[str], *, plan_name: str | None = None,
    force: bool = False,
) -> list[str]:  # fmt: skip
    """Write the files of the app; refuse a folder that is not empty unless ``force``."""
    learner = plan.learner
    if not isinstance(learner, Learner) or learner.coding is None:
        raise InvalidInputError(
            "a Flower app needs columns and a built-in model: plan from the sites' tables with "
            "model='logistic', not from points or another model"
        )
    if plan.points.metric == "neg_log_loss" and learner.model != "logistic":
        raise InvalidInputError("the app trains a linear model; plan with model='logistic'")
    name = plan_name or plan.recommended or "share"
    if name not in plan.plans:
        raise UnknownNameError.among("plan", name, plan.plans)
    root = Path(folder)
    if root.exists() and (not root.is_dir() or any(root.iterdir())) and not force:
        raise InvalidInputError(f"{root.name[:60]} is not empty; use --force to write over it")
    template = files("counterplay.contribution.sites") / "flower_template"
    (root / "app").mkdir(parents=True, exist_ok=True)
    for file in FILES:
        write_atomic(root / file, (template / f"{file}.txt").read_text(encoding="utf-8"))
    content = json.dumps(_content(plan, learner, name), ensure_ascii=False, indent=1)
    write_atomic(root / "app" / "plan.json", content + "\n")
    read_plan(root / "app" / "plan.json")
    return [str(root / file) for file in (*FILES, "app/plan.json")]


def _content(plan: ConsortiumPlan, learner: Learner, name: str) -> dict[str, Any]:
    sites, coding = learner.sites, learner.coding
    assert coding is not None  # checked by the caller
    assert learner.numeric is not None  # built-in models have it
    rows = plan.plans[name].rows.to_numpy()
    seed = int(plan.request.seed % 2**31)
    train = [
        sites.own(i)[np.random.default_rng([seed, i]).permutation(int(sites.sizes[i]))[: int(n)]]
        for i, n in enumerate(rows)
    ]
    together = np.concatenate(train)
    centre, scale = scales(learner.numeric[together])
    losses = _losses(learner, train)
    return {
        "kind": "counterplay consortium app",
        "version": 1,
        "label": sites.label or "label",
        "classes": [_plain(value) for value in sites.labels.classes],
        "seed": seed,
        "sites": [
            {
                "name": site,
                "owned": int(sites.sizes[i]),
                "rows": int(rows[i]),
                "threshold": float(losses[i]),
                "path": None
                if sites.files[i] is None
                else str(Path(str(sites.files[i])).resolve()),
            }
            for i, site in enumerate(sites.names)
        ],
        "numbers": [
            {"column": column, "centre": float(c), "scale": float(s)}
            for column, c, s in zip(coding.numbers, centre, scale)
        ],
        "words": [{"column": column, "words": list(words)} for column, words in coding.words],
    }


def _losses(learner: Learner, train: list[IntArray]) -> FloatArray:
    """Target losses: a little above what one model of all planned rows reaches at each site."""
    codes = learner.sites.labels.codes
    together = np.concatenate(train)
    if len(np.unique(codes[together])) < 2:
        raise InvalidInputError("the planned rows have one label only: there is nothing to learn")
    found = np.full(len(train), np.log(len(learner.sites.labels.classes)))
    for i, own in enumerate(train):
        if len(own):
            _, chance = learner.answer(together, own)
            assert chance is not None  # built-in models give chances
            found[i] = -np.log(np.clip(chance[np.arange(len(own)), codes[own]], 1e-6, 1)).mean()
    return np.asarray(found + ROOM)


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value
