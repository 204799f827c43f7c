"""Write a Flower app that trains by a plan; read its plan back strictly.

Code, TOML and file names are the same for every plan. Names of sites, columns and categories live
in ``app/plan.json`` only, which the apps read like any file from outside.
Source: "The written federation", see docs/theory/23-consortium.md.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from msgspec import Meta

from counterplay.contribution.sites.coding import Coding, scales, with_coding
from counterplay.contribution.sites.description import (
    SiteDescription,
    given_or_read,
    joint_coding,
    read_description,
)
from counterplay.contribution.sites.learners import Learner
from counterplay.contribution.sites.reading import MOST_SITES, check_name
from counterplay.core.arguments import checked
from counterplay.core.files import read_limited, write_atomic
from counterplay.core.records import (
    LIMIT,
    Count,
    Name,
    Record,
    read_record,
    require_state,
)
from counterplay.core.validation import FloatArray, IntArray, check_int
from counterplay.errors import InvalidInputError, UnknownNameError
from counterplay.tables import Table, read_table
from counterplay.tables.cells import shown
from counterplay.tables.labels import cast_labels

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
NEVER = 1e-9
"""A loss that satisfies nobody."""
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

    @property
    def coding(self) -> Coding:
        """How columns become numbers."""
        words = tuple((column.column, tuple(column.words)) for column in self.words)
        return Coding(tuple(number.column for number in self.numbers), words)


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
    what = Path(path).name[:60]
    frame = read_table(Path(path)).frame
    if plan.label not in frame.columns:
        raise InvalidInputError(f"{what} has no column {shown(plan.label, 60)}")
    place = {str(value): code for code, value in enumerate(plan.classes)}
    values, known = cast_labels(frame[plan.label], f"the labels of {what}")
    label = np.array([place.get(str(_plain(v)), -1) if ok else -1 for v, ok in zip(values, known)],
                     dtype=np.int64)  # fmt: skip
    keep = np.flatnonzero(label >= 0)
    if not len(keep):
        raise InvalidInputError(f"no row of {what} has one of the labels of the plan")
    rows = Table.of(frame.drop(columns=plan.label).iloc[keep], what=what)
    numeric, dummies = with_coding(rows, plan.coding, what)
    centre, scale = (
        np.array([getattr(n, key) for n in plan.numbers]) for key in ("centre", "scale")
    )
    return np.hstack([np.nan_to_num((numeric - centre) / scale), dummies]), label[keep]


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
    return _write(folder, _content(plan, learner, name), force)


@checked
def write_measuring_app(
    sites: Sequence[Any], folder: str | os.PathLike[str], *, rows: Mapping[str, int] | None = None,
    seed: int = 0, force: bool = False,
) -> list[str]:  # fmt: skip
    """Write the Flower app of sites whose tables stay where they are, to measure or to train.

    ``python rehearse.py --measure`` or ``flwr run . --run-config measure=true`` measures mixtures
    and writes ``points.json``; then plan from the points, and write the app again with ``rows``.

    Parameters
    ----------
    sites
        Descriptions of the sites (:func:`describe_site`), or their files, in the order of the
        clients' numbers.
    folder
        Where to write.
    rows
        Rows that each site brings in training, by name; default all.
    seed
        Which rows a site draws if it brings some of them.
    force
        Write over a folder that is not empty.

    Notes
    -----
    No losses are known that would satisfy the sites: nobody is called satisfied in training.

    Examples
    --------
    >>> import tempfile
    >>> from counterplay.contribution.lab import describe_site
    >>> rows = np.arange(40.0).reshape(20, 2), [0, 1] * 10
    >>> told = [describe_site(rows, name=name) for name in ("north", "south")]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files = write_measuring_app(told, folder, rows={"north": 12})
    ...     [site.rows for site in read_plan(files[-1]).sites]
    [12, 20]
    """
    told = [given_or_read(s, SiteDescription, read_description, "describe_site") for s in sites]
    coding = joint_coding(told)
    wanted = {site.site: site.owned for site in told} | dict(rows or {})
    if unknown := set(wanted) - {site.site for site in told}:
        raise UnknownNameError.among("site", min(unknown), [site.site for site in told])
    content = {
        "kind": "counterplay consortium app",
        "version": 1,
        "seed": check_int(seed, "seed", low=0),
        "sites": [
            {"name": site.site, "owned": site.owned, "threshold": NEVER, "path": None,
             "rows": check_int(wanted[site.site], "rows", low=0, high=site.owned)}
            for site in told
        ],
        **coding,
    }  # fmt: skip
    return _write(folder, content, force)


def _write(folder: str | os.PathLike[str], content: dict[str, Any], force: bool) -> list[str]:
    """Write the constant files and ``plan.json``; refuse a folder that is not empty."""
    root = Path(folder)
    check_empty(root, force)
    template = files("counterplay.contribution.sites") / "flower_template"
    (root / "app").mkdir(parents=True, exist_ok=True)
    for file in FILES:
        write_atomic(root / file, (template / f"{file}.txt").read_text(encoding="utf-8"))
    text = json.dumps(content, ensure_ascii=False, indent=1)
    write_atomic(root / "app" / "plan.json", text + "\n")
    read_plan(root / "app" / "plan.json")
    return [str(root / file) for file in (*FILES, "app/plan.json")]


def check_empty(folder: Path, force: bool) -> None:
    """Refuse to write over what is there, unless that is wanted."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())) and not force:
        raise InvalidInputError(f"{folder.name[:60]} is not empty; use --force to write over it")


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
