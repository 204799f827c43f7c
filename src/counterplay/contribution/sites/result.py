"""What a consortium gets back: plans side by side, prices, who would hold back, warnings."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.contribution.sites import fitting, robust
from counterplay.contribution.sites.curves import SiteCurves
from counterplay.contribution.sites.points import SitePoints
from counterplay.contribution.sites.ray import Share
from counterplay.contribution.sites.robust import Promises, Solved
from counterplay.core.arguments import checked
from counterplay.core.files import write_atomic
from counterplay.core.report import Report, plain
from counterplay.core.validation import BoolArray, FloatArray
from counterplay.errors import UnknownNameError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

PLANS = ("share", "cheapest", "stable", "compensated", "contract", "envy_free", "left_alone")
LOOSEST = 0.2
"""Largest ``within`` that is looked at for a voluntary plan."""
STEPS = 12


@dataclass(frozen=True)
class SitePlan:
    """One plan: rows per site and what they promise; every column is a Series over the sites.

    ``probability`` is the model's; ``basis`` says whether the site's own rows verify it.
    ``against_interest`` are rows a site could withdraw and still keep its promise with confidence;
    ``sure`` and ``perhaps`` the same of whole rows, in nearly all and in some redraws. ``envies``
    names the sites whose lighter load it would rather carry; ``short`` is by how much the promise
    is missed.
    """

    name: str
    cost: float
    rows: pd.Series
    probability: pd.Series
    basis: pd.Series
    expected: pd.Series
    low: pd.Series
    high: pd.Series
    against_interest: pd.Series
    sure: pd.Series
    perhaps: pd.Series
    envies: pd.Series
    short: pd.Series

    def __repr__(self) -> str:
        return f"SitePlan({self.name}, {self.total} rows of {len(self.rows)} sites)"

    @property
    def total(self) -> int:
        """Rows of all sites together."""
        return int(self.rows.sum())

    @classmethod
    def of(
        cls,
        points: SitePoints,
        name: str,
        *,
        rows: FloatArray,
        cost: float,
        probability: FloatArray,
        verified: BoolArray,
        scores: list[FloatArray],
        interest: FloatArray | None,
        envies: BoolArray | None,
        withdraw: tuple[FloatArray, FloatArray] | None,
        short: FloatArray,
    ) -> SitePlan:
        """Put arrays of scored sites into Series over all sites (NaN where not scored)."""
        import pandas as pd

        index = pd.Index(points.names, name="site")
        unknown = np.full(points.k, np.nan)

        def scored(values: Any) -> pd.Series:
            full = np.full(points.k, np.nan)
            full[list(points.scored)] = values
            return pd.Series(full, index=index)

        basis = np.full(points.k, "contributes only", dtype=object)
        basis[list(points.scored)] = np.where(verified, "verified", "modelled")
        jealous = [
            () if envies is None else tuple(points.names[j] for j in np.flatnonzero(envies[i]))
            for i in range(points.k)
        ]
        sure, perhaps = (unknown, unknown) if withdraw is None else withdraw
        if points.metric != "neg_log_loss":
            scores = [np.clip(score, 0.0, 1.0) for score in scores]
        return cls(
            name=name,
            cost=cost,
            rows=pd.Series(rows.astype(np.int64), index=index),
            probability=scored(probability),
            basis=pd.Series(basis, index=index),
            expected=scored(scores[0]),
            low=scored(scores[1]),
            high=scored(scores[2]),
            against_interest=pd.Series(unknown if interest is None else interest, index=index),
            sure=pd.Series(sure, index=index),
            perhaps=pd.Series(perhaps, index=index),
            envies=pd.Series(jealous, index=index, dtype=object),
            short=scored(short),
        )

    def to_frame(self) -> pd.DataFrame:
        """Return one row per site."""
        import pandas as pd

        columns = ("rows", "probability", "basis", "expected", "low", "high", "against_interest",
                   "sure", "perhaps", "envies", "short")  # fmt: skip
        return pd.DataFrame({name: getattr(self, name) for name in columns})


@checked
@dataclass(frozen=True)
class ConsortiumPlan(Report):
    """Plans of a consortium; made by ``plan_consortium``.

    ``share`` always exists; the others are None where no such plan exists, and ``why_not`` says
    why. Prices compare plans that were solved with the same margins.
    """

    points: SitePoints
    request: Any
    curves: SiteCurves | None
    promises: Promises | None
    solved: Solved | None
    ray: Share
    plans: Mapping[str, SitePlan]
    learner: Any = field(default=None, repr=False, compare=False)

    def __repr__(self) -> str:
        goal = self.request.targets.text
        return f"ConsortiumPlan({self.points.k} sites, {goal}, recommended={self.recommended})"

    @property
    def owned(self) -> pd.Series:
        """Rows each site owns."""
        import pandas as pd

        return pd.Series(self.points.owned, index=pd.Index(self.points.names, name="site"))

    @property
    def share(self) -> SitePlan:
        """The same share of everybody's rows."""
        return self.plans["share"]

    @property
    def cheapest(self) -> SitePlan | None:
        """Fewest rows (times prices) found that keep every promise given, with confidence."""
        return self.plans.get("cheapest")

    @property
    def stable(self) -> SitePlan | None:
        """Every promise holds and nobody can bring less and keep its own, with this confidence."""
        return self.plans.get("stable")

    @property
    def compensated(self) -> SitePlan | None:
        """Fewest rows brought against their owners' interest."""
        return self.plans.get("compensated")

    @property
    def contract(self) -> SitePlan | None:
        """Cheapest plan in which nobody brings more than it would need alone."""
        return self.plans.get("contract")

    @property
    def envy_free(self) -> SitePlan | None:
        """Cheapest plan in which nobody would rather carry a lighter load."""
        return self.plans.get("envy_free")

    @property
    def left_alone(self) -> SitePlan | None:
        """Where everybody ends who answers the others with the least that suffices."""
        return self.plans.get("left_alone")

    @cached_property
    def why_not(self) -> dict[str, str]:
        """For each plan that does not exist, the reason."""
        from counterplay.contribution.sites.text import reasons

        return reasons(self)

    @property
    def promised(self) -> pd.Series:
        """To which sites the promise is given with confidence."""
        import pandas as pd

        given = np.zeros(self.points.k, dtype=bool)
        scored = list(self.points.scored)
        if self.promises is None:
            given[scored] = self.request.targets.relative[scored] | (
                self.share.probability.to_numpy()[scored] >= 1.0 - self.request.alpha - 1e-9
            )
        else:
            given[scored] = self.promises.promised
        return pd.Series(given, index=pd.Index(self.points.names, name="site"))

    @property
    def recommended(self) -> str | None:
        """Name of the plan to take; None if one model does not suit these sites."""
        if self.promises is not None and int(self.promises.promised.sum()) < 2:
            if self.promises.alone.any() or len(self.points.scored) < 2:
                return None
            return "share"
        cost = self.request.cost @ self.share.rows
        if self.stable is not None and self.stable.cost <= 1.1 * cost:
            return "stable"
        if self.cheapest is not None and self.cheapest.cost < 0.8 * cost:
            return "cheapest"
        return "share"

    @property
    def price_of_stability(self) -> float:
        """Cost of the stable plan over the cheapest at the same margins; infinite without one."""
        return self._price(None if self.solved is None else self.solved.stable)

    @property
    def price_of_fairness(self) -> float:
        """Cost of the envy-free plan over the cheapest at the same margins; infinite without."""
        fair = None if self.solved is None else self.solved.envy_free
        return self._price(None if fair is None else fair.n)

    @property
    def price_of_anarchy(self) -> float:
        """Cost of the dearest stable plan over the cheapest; infinite if there is none."""
        return self._price(None if self.solved is None else self.solved.dearest)

    def _price(self, n: FloatArray | None) -> float:
        if n is None or self.solved is None:
            return float("inf")
        cost = float(self.solved.game.cost @ n)
        if self.solved.optimum <= 1e-9:  # nothing is needed at all
            return 1.0 if cost <= 1e-9 else float("inf")
        return cost / self.solved.optimum

    @property
    def holds_back(self) -> pd.DataFrame:
        """Rows each site would surely and perhaps keep back under the recommended plan."""
        import pandas as pd

        plan = self.plans[self.recommended or "share"]
        return pd.DataFrame({"sure": plan.sure, "perhaps": plan.perhaps})

    @property
    def saved_by_a_point(self) -> pd.Series:
        """Rows that the cheapest plan saves if one site's promise is one point weaker."""
        import pandas as pd

        from counterplay.contribution import capped

        saved = np.full(self.points.k, np.nan)
        if self.solved is not None and self.promises is not None:
            curves, need = self.promises.curves, self.solved.need
            at = fitting.curve(curves.theta, need[:, None])[:, 0]
            for g, i in enumerate(self.points.scored):
                weaker = need.copy()
                weaker[g] = min(need[g], curves.needs(at + 0.01 * curves.scale)[g])
                n = capped.cheapest(self.promises.asking(weaker))
                saved[i] = self.solved.optimum - float(self.request.cost @ n)
        return pd.Series(saved, index=pd.Index(self.points.names, name="site"))

    def best_voluntary_target(self) -> str | None:
        """The tightest ``within`` for which a stable plan exists; None if even 0.2 has none.

        Found by bisection at the same confidence; ten per cent tighter has no stable plan.
        """
        promises = self.promises
        if promises is None:
            return None
        scale = LOOSEST if self.points.metric != "neg_log_loss" else 1.0

        def exists(g: float) -> bool:
            return robust.has_stable_plan(robust.tightened(promises, g))

        high = scale
        if not exists(high):
            return None
        low = 0.0
        for _ in range(STEPS):
            middle = _rounded((low + high) / 2.0)
            low, high = (low, middle) if exists(middle) else (middle, high)
            if low >= 0.9 * high:
                break
        while high > 1e-4 and exists(_rounded(0.9 * high)):
            high = _rounded(0.9 * high)
        return f"within={high:g}"

    def what_if(
        self,
        *,
        caps: Mapping[str, float] | None = None,
        target: Any = None,
        without: str | None = None,
    ) -> ConsortiumPlan:
        """Plan again from the same points with other caps, targets, or without a site.

        Parameters
        ----------
        caps
            Most rows by site.
        target
            Another target.
        without
            A site that leaves: it brings nothing and is promised nothing.
        """
        from counterplay.contribution.sites.plan import _caps, planned
        from counterplay.contribution.sites.targets import read_targets

        points, request = self.points, self.request
        if caps is not None:
            cap = _caps(caps, points.names, points.owned)
            request = replace(request, cap=np.minimum(request.cap, cap))
        if target is not None:
            goals = read_targets(target, points.names, points.metric)
            request = replace(request, targets=goals)
        if without is not None:
            i = points.index(without)
            kept = points.site != i
            points = replace(
                points, rows=points.rows[kept], site=points.site[kept], score=points.score[kept],
                test_rows=points.test_rows[kept], ray=points.ray[kept],
            )  # fmt: skip
            cap = request.cap.copy()
            cap[i] = 0.0
            request = replace(request, cap=cap)
        return replace(planned(points, request), learner=self.learner)

    def summary(self) -> str:
        """Return everything a coordinator should know, in the order of questions."""
        from counterplay.contribution.sites.text import summary

        return summary(self)

    def warnings(self) -> list[str]:
        """Return what speaks against trusting the plan, one sentence each."""
        from counterplay.contribution.sites.text import warnings_of

        return warnings_of(self)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per site: owned, rows under each plan, score, band and promise."""
        import pandas as pd

        frame = pd.DataFrame({"owned": self.owned})
        for name in PLANS:
            if name in self.plans:
                frame[name] = self.plans[name].rows
        chosen = self.plans[self.recommended or "share"]
        frame["expected"], frame["low"], frame["high"] = chosen.expected, chosen.low, chosen.high
        frame["probability"], frame["basis"] = chosen.probability, chosen.basis
        frame["promised"] = self.promised
        frame["holds_back_sure"] = chosen.sure
        frame["holds_back_perhaps"] = chosen.perhaps
        return frame

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the plans as bars beside what sites own; hatched is brought against interest."""
        from counterplay.contribution.sites.pictures import draw_plans

        return draw_plans(self, ax)

    def plot_rates(self, ax: Axes | None = None) -> Axes:
        """Draw what one row of each site is worth to each site."""
        from counterplay.contribution.sites.pictures import draw_rates

        return draw_rates(self, ax)

    def plan(self, name: str) -> SitePlan:
        """Return a plan by name."""
        if name not in self.plans:
            raise UnknownNameError.among("plan", name, self.plans)
        return self.plans[name]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        prices = {
            "stability": self.price_of_stability,
            "fairness": self.price_of_fairness,
            "anarchy": self.price_of_anarchy,
        }
        content = {
            **super().to_dict(),
            "recommended": self.recommended,
            "target": self.request.targets.text,
            "confidence": 1.0 - self.request.asked,
            "metric": self.points.metric,
            "promised": self.promised.to_dict(),
            "plans": {
                name: {"total": plan.total, "cost": plan.cost,
                       "sites": plan.to_frame().to_dict(orient="index")}
                for name, plan in self.plans.items()
            },
            "why_not": self.why_not,
            "prices": prices,
            "warnings": self.warnings(),
        }  # fmt: skip
        result: dict[str, Any] = plain(content)
        return result

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return everything as JSON, and write it to ``path``."""
        text = json.dumps(self.to_dict(), ensure_ascii=False, indent=1)
        if path is not None:
            write_atomic(path, text + "\n")
        return text

    def write_flower(
        self,
        folder: str | os.PathLike[str],
        *,
        plan: str | None = None,
        force: bool = False,
    ) -> list[str]:
        """Write a Flower app that trains by the plan and keeps the sites; return its files.

        Parameters
        ----------
        folder
            Where to write; refused if it is not empty, unless ``force``.
        plan
            Which plan; the recommended one by default.
        force
            Whether to write over what is there.
        """
        from counterplay.contribution.sites.flower_project import write_project

        return write_project(self, folder, plan_name=plan, force=force)


def _rounded(g: float) -> float:
    """Three digits: the target that is printed is the one that was solved."""
    return float(f"{g:.3g}")
