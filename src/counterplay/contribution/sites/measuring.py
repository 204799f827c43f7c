"""Measure what contributions are worth: few fits, every row held out once in a while.

Each fit draws some rows of every site, trains, and scores the model on held-out rows of every site:
one fit gives one point for each. Half of the fits lie on the ray "the same share of everybody",
the others spread over mixtures. Shares are of each site's own rows, so a small site limits nobody.
Source: "Measuring", see docs/theory/23-consortium.md.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from counterplay.contribution.sites.learners import Learner
from counterplay.contribution.sites.points import RayRows, SitePoints
from counterplay.contribution.sites.reading import Sites, read_sites
from counterplay.contribution.sites.scoring import METRICS, Score, score_rows, strata
from counterplay.contribution.sites.splits import FOLDS, split_rows
from counterplay.core.arguments import checked
from counterplay.core.progress import progress_bar
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import FloatArray, IntArray, check_int, check_real, shorten
from counterplay.errors import ConvergenceError, InvalidInputError
from counterplay.tables.cells import shown

LEVELS = 12
"""Shares on the ray, from 4 % to all of what may be trained on."""
RAY_SPLITS = 8
LEAST_SPLITS = 4
MOST_FITS = 100_000
FAILED = 0.2

RAY = np.geomspace(0.04, 1.0, LEVELS)


@checked
def measure_sites(
    sites: Any,
    *,
    label: str | None = None,
    model: Any = "logistic",
    metric: str = "accuracy",
    budget: int | None = None,
    plans: Literal["all", "share"] = "all",
    contribute_only: Sequence[str] = (),
    time_limit: float | None = None,
    folds: int = FOLDS,
    n_jobs: int = 1,
    progress: bool = True,
    random_state: RandomState = 0,
) -> SitePoints:
    """Measure how well every site is served by mixtures of everybody's rows.

    Use it once, plan often: the points hold sizes and scores, no rows, and can be saved
    (``to_json``) and planned with :func:`plan_consortium` under other targets and caps.

    Parameters
    ----------
    sites
        Name to ``DataFrame``, to ``(X, y)``, or to the path of a CSV or Parquet file.
    label
        Column of the labels, for frames and files.
    model
        ``"logistic"``, ``"boosting"``, or any scikit-learn classifier or pipeline; it is given rows
        as the sites brought them. Fitted anew for each point, on contributed rows only.
    metric
        ``"accuracy"``, ``"balanced_accuracy"``, ``"neg_log_loss"`` or ``"roc_auc"``.
    budget
        Number of fits; default ``96 + max(80, 45 + 3 k)`` for k sites.
    plans
        ``"share"``: only the ray of common shares (96 fits); no analysis of incentives.
    contribute_only
        Sites that bring rows but are not scored, such as one with a single label.
    time_limit
        Seconds; stops after the running fit and uses what is there.
    folds
        Parts of a site's rows; one of them is held out in each fit.
    n_jobs
        Threads that fit at the same time; the points are the same for any number.
    progress
        Whether to show a progress bar.
    random_state
        Seed of splits and draws.

    Returns
    -------
    SitePoints
        ``to_frame()``, ``plot()``, ``curves()``, ``to_json(path)``.

    Notes
    -----
    At most ``1 - 1/folds`` of a site's rows are in a fit: what a plan asks beyond is extrapolated.

    References
    ----------
    Hashimoto (2021), *Model Performance Scaling with Multiple Data Sources*, ICML.

    Examples
    --------
    >>> from counterplay.contribution import measure_sites
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> sites = {"city": (X[:400], y[:400]), "island": (X[400:], y[400:])}
    >>> points = measure_sites(sites, plans="share", budget=48, progress=False)
    >>> points.fits, points.largest().tolist()  # three quarters of each site's own rows
    (48, [300, 127])
    """
    given = sites if isinstance(sites, Sites) else read_sites(
        sites, label, contribute_only=contribute_only
    )  # fmt: skip
    if metric not in METRICS:
        raise InvalidInputError(
            f"metric must be one of {', '.join(METRICS)}, got {shown(metric, 60)}"
        )
    if metric == "roc_auc" and len(given.labels.classes) != 2:
        raise InvalidInputError(
            f"roc_auc needs two classes, the sites have {len(given.labels.classes)}; use accuracy"
        )
    parts = check_int(folds, "folds", low=2, high=20)
    design = Design(given.k, fit_budget(budget, given.k, plans), plans)
    if time_limit is not None:
        check_real(time_limit, "time_limit", low=0.0, open_low=True)
    learner = Learner(given, model, chances=metric in ("neg_log_loss", "roc_auc"))
    seed = int(generator(random_state).integers(2**62))
    run = Measurement(learner, metric, parts, seed, check_int(n_jobs, "n_jobs", low=1, high=512))
    return run.points(design.jobs(seed), time_limit=time_limit, progress=progress)


@dataclass(frozen=True)
class Job:
    """One fit: which split, which share of every site's training rows, and where it belongs."""

    split: int
    shares: tuple[float, ...]
    level: int | None = None


@dataclass(frozen=True)
class Design:
    """Which mixtures are tried."""

    k: int
    budget: int
    plans: str

    @property
    def splits(self) -> int:
        """Splits of the ray: eight, fewer if the budget is small."""
        rest = 0 if self.plans == "share" else 45 + 3 * self.k
        return int(np.clip((self.budget - rest) // LEVELS, LEAST_SPLITS, RAY_SPLITS))

    def jobs(self, seed: int) -> list[Job]:
        """Ray and mixtures in turns, so that a run that is stopped early has some of both."""
        ray = [
            Job(r, (float(RAY[level]),) * self.k, level)
            for r in range(self.splits)
            for level in range(LEVELS)
        ]
        mixed = [
            Job(self.splits + i, shares)
            for i, shares in enumerate(self._mixtures(seed, self.budget - len(ray)))
        ]
        if self.plans == "share":
            return ray
        turns: list[Job] = []
        step = -(-len(mixed) // self.splits)
        for r in range(self.splits):
            turns += ray[r * LEVELS : (r + 1) * LEVELS] + mixed[r * step : (r + 1) * step]
        return turns

    def _mixtures(self, seed: int, count: int) -> list[tuple[float, ...]]:
        k, eye = self.k, np.eye(self.k)
        fixed = [np.ones(k), np.ones(k), *(np.full(k, s) for s in (0.5, 0.25, 0.125))]
        fixed += [1.0 - eye[j] for j in range(k)]
        fixed += [share * eye[j] for j in range(k) for share in (1.0, 0.25)]
        rng = np.random.default_rng([seed, 1])
        while len(fixed) < count:
            share = np.exp(rng.uniform(np.log(0.03), 0.0, k))
            share *= rng.random(k) < 0.7
            if share.any():
                fixed.append(share)
        order = np.random.default_rng([seed, 2]).permutation(count)
        kept = fixed[:count]
        return [tuple(kept[i].tolist()) for i in order]


class Measurement:
    """The fits of one call: splits by seed, so that any order and any number of threads agree."""

    def __init__(self, learner: Learner, metric: str, folds: int, seed: int, n_jobs: int) -> None:
        self.learner, self.sites = learner, learner.sites
        self.metric, self.folds, self.seed, self.n_jobs = metric, folds, seed, n_jobs
        self.failed: list[str] = []

    def points(
        self, jobs: Sequence[Job], *, time_limit: float | None, progress: bool
    ) -> SitePoints:
        """Fit all jobs, or those that fit into the time limit; return their points."""
        start = time.monotonic()
        done: list[tuple[Job, IntArray, dict[int, Score]]] = []
        tried = 0
        with progress_bar(progress) as bar:
            task = bar.add_task("fitting mixtures of rows", total=len(jobs))
            for batch in _batches(jobs, self.n_jobs):
                if tried and time_limit is not None and time.monotonic() - start > time_limit:
                    break
                for job, result in zip(batch, self._fit_all(batch)):
                    tried += 1
                    if isinstance(result, str):
                        self._fail(tried, job, result, len(jobs))
                    else:
                        done.append((job, *result))
                bar.update(task, completed=tried)
        if len(self.failed) > FAILED * tried or not done:
            raise InvalidInputError(f"{len(self.failed)} of {tried} fits failed: {self.failed[0]}")
        notes = list(self.failed[:3])
        if tried < len(jobs):
            notes.append(f"stopped by the time limit after {tried} of {len(jobs)} fits")
        return self._gather(done, tuple(notes))

    def at(self, rows: FloatArray, splits: int, first: int) -> SitePoints:
        """Fit at one plan on new splits; rows beyond what may be trained on are left out."""
        shares = rows / np.maximum(self.sites.sizes * (1.0 - 1.0 / self.folds), 1.0)
        chosen = tuple(np.clip(shares, 0.0, 1.0).tolist())
        jobs = [Job(first + i, chosen) for i in range(splits)]
        return self.points(jobs, time_limit=None, progress=False)

    def _fit_all(self, batch: Sequence[Job]) -> list[Any]:
        if len(batch) == 1:
            return [self._fit(batch[0])]
        from joblib import Parallel, delayed

        run = Parallel(n_jobs=self.n_jobs, prefer="threads")
        return list(run(delayed(self._fit)(job) for job in batch))

    def _fit(self, job: Job) -> tuple[IntArray, dict[int, Score]] | str:
        """Rows used per site and the scores; a text if the model failed."""
        train, test = self._rows(job)
        try:
            answer, chance = self.learner.answer(
                np.concatenate(train), np.concatenate([test[i] for i in self.sites.scored])
            )
        except Exception as error:  # whatever a user's pipeline raises
            return f"{type(error).__name__}: {' '.join(str(error).split())}"
        scores: dict[int, Score] = {}
        start = 0
        for i in self.sites.scored:
            own = slice(start, start + len(test[i]))
            start += len(test[i])
            truth = self.sites.labels.codes[test[i]]
            part = None if chance is None else chance[own]
            score = score_rows(self.metric, truth, answer[own], part)
            if score is not None:
                scores[i] = score
        return np.array([len(rows) for rows in train]), scores

    def _rows(self, job: Job) -> tuple[list[IntArray], list[IntArray]]:
        """Training and held-out rows of every site, by split; nested along the ray."""
        train, test = [], []
        for i, (start, size) in enumerate(zip(self.sites.starts, self.sites.sizes)):
            own = split_rows(self.seed, i, int(size), job.split, job.shares[i], self.folds)
            train.append(start + own[0])
            test.append(start + own[1])
        return train, test

    def held_out(self, split: int) -> list[IntArray]:
        """Held-out rows of every site in a split."""
        return self._rows(Job(split, (0.0,) * self.sites.k))[1]

    def _fail(self, number: int, job: Job, why: str, total: int) -> None:
        train, _ = self._rows(job)
        sizes = ", ".join(
            f"{name[:20]} {len(rows)}" for name, rows in zip(self.sites.names[:4], train)
        )
        self.failed.append(
            f"the model failed on point {number} (rows: {sizes}): {shorten(why, 110)}; "
            "the point is skipped"
        )
        if len(self.failed) > FAILED * total:
            raise InvalidInputError(f"{len(self.failed)} of {number} fits failed: {self.failed[0]}")

    def _gather(
        self,
        done: list[tuple[Job, IntArray, dict[int, Score]]],
        notes: tuple[str, ...],
    ) -> SitePoints:
        items = [
            (used, i, score.value, score.test_rows, job.level is not None)
            for job, used, scores in done
            for i, score in scores.items()
        ]
        if not items:
            raise ConvergenceError(f"{self.metric} could not be measured at any site")
        return SitePoints.of_items(
            self.sites.names, self.sites.sizes.tolist(), self.metric, items,
            notes=(*self.sites.warnings, *notes), fits=len(done), held_out=self._ray_rows(done),
            guess=self._guess(),
        )  # fmt: skip

    def _ray_rows(self, done: list[tuple[Job, IntArray, dict[int, Score]]]) -> RayRows | None:
        """Errors of every row at every level, averaged over the complete splits of the ray."""
        by_split: dict[int, dict[int, tuple[IntArray, dict[int, Score]]]] = {}
        for job, used, scores in done:
            if job.level is not None:
                by_split.setdefault(job.split, {})[job.level] = (used, scores)
        whole = {r: levels for r, levels in by_split.items() if len(levels) == LEVELS}
        if not whole:
            return None
        n = int(self.sites.sizes.sum())
        total, count = np.zeros((LEVELS, n)), np.zeros(n)
        for r, levels in whole.items():
            test = self.held_out(r)
            for i in self.sites.scored:
                if all(i in scores for _, scores in levels.values()):
                    count[test[i]] += 1
                    for level, (_, scores) in levels.items():
                        total[level, test[i]] += scores[i].parts
        sizes = np.array([[used.sum() for used, _ in (w[lv] for lv in range(LEVELS))]
                          for w in whole.values()]).mean(axis=0)  # fmt: skip
        errors, groups, weights = [], [], []
        for i in range(self.sites.k):
            own = self.sites.own(i)
            own = own[count[own] > 0]
            group, weight = strata(self.metric, self.sites.labels.codes[own])
            errors.append(total[:, own] / np.maximum(count[own], 1))
            groups.append(group)
            weights.append(weight)
        return RayRows(sizes, tuple(errors), tuple(groups), tuple(weights))

    def _guess(self) -> FloatArray:
        """Score of always guessing the most common label of a site (accuracy only)."""
        if self.metric != "accuracy":
            return np.full(self.sites.k, np.nan)
        codes = self.sites.labels.codes
        return np.array(
            [np.bincount(codes[self.sites.own(i)]).max() / self.sites.sizes[i]
             for i in range(self.sites.k)]
        )  # fmt: skip


def fit_budget(budget: int | None, k: int, plans: str) -> int:
    """Number of fits: what was asked for if it suffices, else the default."""
    least = LEAST_SPLITS * LEVELS + (0 if plans == "share" else 5 + 3 * k)
    if budget is None:
        return RAY_SPLITS * LEVELS + (0 if plans == "share" else max(80, 45 + 3 * k))
    asked = check_int(budget, "budget", low=0, high=MOST_FITS)
    if asked < least:
        raise InvalidInputError(f"{k} sites need at least {least} fits; got {asked}")
    return asked


def _batches(jobs: Sequence[Job], size: int) -> Iterator[Sequence[Job]]:
    for start in range(0, len(jobs), size):
        yield jobs[start : start + size]
