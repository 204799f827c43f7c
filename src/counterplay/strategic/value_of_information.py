"""What is it worth to see applicants first, or their original features afterwards?

The same catalogue and the same applicants are played in all four settings, each with the learner
that suits it. The difference in mistakes is the price of not knowing, on your own data.

Source: "Setting", "Results", see docs/theory/02-strategic-finite.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from counterplay.core.arguments import checked
from counterplay.core.play import play
from counterplay.core.progress import track
from counterplay.core.report import Report
from counterplay.core.seeds import RandomState, spawn
from counterplay.core.setting import Setting
from counterplay.core.stats import Interval, mean_interval
from counterplay.core.validation import FloatArray, check_int
from counterplay.errors import InvalidInputError
from counterplay.strategic.agents import Agents
from counterplay.strategic.applicants import Applicants
from counterplay.strategic.classes import HypothesisClass
from counterplay.strategic.elimination import DeltaOnlyElimination, SequentialElimination
from counterplay.strategic.erm import FiniteERM
from counterplay.strategic.estimator_class import TabulatedClass
from counterplay.strategic.features import read_labels
from counterplay.strategic.halving import StrategicHalving
from counterplay.strategic.mwmr import MWMR
from counterplay.strategic.predictors import Predictor, UnionPredictor
from counterplay.strategic.settings import (
    BLIND,
    FEATURES_AFTER,
    FEATURES_FIRST,
    REPORT_ONLY,
)
from counterplay.strategic.union_sampling import UnionSamplingLearner

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

PLAYERS: Mapping[str, tuple[Setting, Callable[..., Any]]] = {
    "StrategicHalving": (FEATURES_FIRST, StrategicHalving),
    "MWMR": (FEATURES_AFTER, MWMR),
    "UnionSamplingLearner": (FEATURES_AFTER, UnionSamplingLearner),
    "DeltaOnlyElimination": (REPORT_ONLY, DeltaOnlyElimination),
    "SequentialElimination": (BLIND, partial(SequentialElimination, order="random")),
}
"""One learner per setting, made of a catalogue, ``on_empty`` and ``random_state``."""
_WORDS = {
    FEATURES_FIRST.name: "features seen before the decision",
    FEATURES_AFTER.name: "features seen after the decision",
    REPORT_ONLY.name: "only reported features seen",
    BLIND.name: "nothing seen",
}


@checked
@dataclass(frozen=True, eq=False)
class ValueOfInformation(Report):
    """Mistakes per information setting on one catalogue and one list of applicants.

    Made by :func:`value_of_information`.

    Parameters
    ----------
    runs:
        One row per run and learner: ``learner``, ``setting``, ``target``, ``mistakes``,
        ``remaining``, ``error`` (of the rule published at the end), ``last_mistake``.
    rules:
        Number of rules.
    applicants:
        Number of applicants.
    naive_error:
        Error, after people have moved, of the rule chosen as if nobody moved (mean over the runs).
    oracle_error:
        The same of the best rule.

    Examples
    --------
    >>> import numpy as np
    >>> from counterplay.strategic import LinearClass
    >>> rng = np.random.default_rng(0)
    >>> rules = LinearClass(rng.normal(size=(64, 3)), rng.normal(size=64))
    >>> X = rng.normal(size=(400, 3))
    >>> study = value_of_information(rules, X, radius=rng.exponential(0.5, 400), random_state=0)
    >>> study.mistakes("StrategicHalving").estimate < study.mistakes("SequentialElimination").low
    True
    """

    runs: pd.DataFrame
    rules: int
    applicants: int
    naive_error: float
    oracle_error: float

    def mistakes(self, learner: str) -> Interval:
        """Return the mean number of mistakes of a learner with its interval."""
        found = self.runs.loc[self.runs["learner"] == learner, "mistakes"]
        if found.empty:
            raise InvalidInputError(f"no learner named {learner!r}; there are {list(PLAYERS)}")
        values = found.to_numpy(dtype=np.float64)
        if values.size == 1:
            return Interval(float(values[0]), float(values[0]), float(values[0]))
        return mean_interval(values)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per learner: mistakes with interval, rules left, error at the end."""
        import pandas as pd

        rows = []
        for learner, part in self.runs.groupby("learner", sort=False):
            interval = self.mistakes(str(learner))
            rows.append(
                {
                    "learner": learner,
                    "setting": part["setting"].iloc[0],
                    "mistakes": interval.estimate,
                    "mistakes_low": interval.low,
                    "mistakes_high": interval.high,
                    "remaining": part["remaining"].mean(),
                    "error": part["error"].mean(),
                    "last_mistake": part["last_mistake"].mean(),
                }
            )
        return pd.DataFrame(rows)

    def summary(self) -> str:
        """Return what each kind of information is worth, in mistakes."""
        frame = self.to_frame().set_index("learner")
        lines = [
            f"Value of information: {self.rules} rules, {self.applicants} applicants, "
            f"{self.runs['run'].nunique()} runs"
        ]
        for learner, row in frame.iterrows():
            words = _WORDS[row["setting"]]
            lines.append(
                f"  {words} ({learner}): {row['mistakes']:.1f} mistakes "
                f"[{row['mistakes_low']:.1f}, {row['mistakes_high']:.1f}], "
                f"{row['remaining']:.1f} rules left, the rule at the end errs on "
                f"{row['error']:.1%}"
            )
        best = frame["mistakes"]
        lines.append(
            "  seeing applicants before the decision instead of afterwards saves "
            f"{best['MWMR'] - best['StrategicHalving']:.1f} mistakes, seeing them afterwards "
            f"instead of never {best['SequentialElimination'] - best['MWMR']:.1f}"
        )
        lines.append(
            f"  a rule chosen as if nobody moved errs on {self.naive_error:.1%} of applicants, the "
            f"best rule on {self.oracle_error:.1%}"
        )
        return "\n".join(lines)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the mistakes per learner as bars with intervals."""
        from counterplay.core.figures import PALETTE, axes_or_new, figure_style

        frame = self.to_frame()
        with figure_style():
            ax = axes_or_new(ax, width=7.0)
            labels = [f"{row.learner}\n{_WORDS[str(row.setting)]}" for row in frame.itertuples()]
            low = frame["mistakes"] - frame["mistakes_low"].clip(lower=0)
            high = frame["mistakes_high"] - frame["mistakes"]
            ax.barh(labels, frame["mistakes"], xerr=[low, high], color=PALETTE[0], alpha=0.8)
            ax.invert_yaxis()
            ax.set_xlabel(f"mistakes on {self.applicants} applicants")
        return ax


MOST_RUNS = 1000


@checked
def value_of_information(
    hypotheses: HypothesisClass,
    X: Any,
    *,
    radius: ArrayLike,
    y: Any = None,
    positive: Any = None,
    targets: Sequence[int] | None = None,
    repeats: int = 10,
    progress: bool = False,
    random_state: RandomState = None,
) -> ValueOfInformation:
    """Measure on your own catalogue and applicants what each kind of feedback is worth.

    Parameters
    ----------
    hypotheses:
        The catalogue.
    X:
        Applicants (features, or point numbers for classes over a finite space).
    radius:
        Ability of each applicant; a guess, or a distribution you want to be safe against.
    y:
        True labels. Default: for each run the labels that make a random rule of the catalogue
        perfect. With real labels usually no rule is perfect; learners then start over whenever
        their version space is empty.
    positive:
        The label applicants want; may be left out when labels are 0 and 1 or True and False.
    targets:
        The perfect rules to use instead of random ones.
    repeats:
        Number of runs, each with a new order of the applicants (and a new perfect rule).
    progress:
        Show a progress bar.
    random_state:
        Seed.

    Examples
    --------
    >>> import numpy as np
    >>> from counterplay.strategic import LinearClass
    >>> rng = np.random.default_rng(1)
    >>> rules = LinearClass(rng.normal(size=(32, 3)), rng.normal(size=32))
    >>> study = value_of_information(
    ...     rules, rng.normal(size=(300, 3)), radius=0.5, repeats=5, random_state=0)
    >>> study.to_frame()["setting"].tolist()
    ['features_first', 'features_after', 'features_after', 'report_only', 'blind']

    References
    ----------
    "Setting", "Results", see docs/theory/02-strategic-finite.md.
    """
    import pandas as pd

    table = TabulatedClass(hypotheses, X)
    m = table.table.shape[0]
    count = (
        check_int(repeats, "repeats", low=1, high=MOST_RUNS) if targets is None else len(targets)
    )
    labels = None if y is None else read_labels(y, m, positive)
    rows: list[dict[str, Any]] = []
    naive, oracle = [], []
    streams = spawn(random_state, count)
    for run in track(range(count), "runs", total=count, enabled=progress):
        rng = streams[run]
        target = int(rng.integers(hypotheses.n)) if targets is None else int(targets[run])
        points = np.arange(m)
        if labels is None:
            agents = Agents.from_target(table, points, target=target, radius=radius)
        else:
            agents = Agents(X=points, y=labels, radius=radius)
        order = rng.permutation(m)
        agents = agents.take(order)
        losses = agents.losses(table).mean(axis=0)
        naive.append(float(losses[FiniteERM(table, strategic=False).fit(agents).member_]))
        oracle.append(float(losses[FiniteERM(table).fit(agents).member_]))
        for name, (setting, make) in PLAYERS.items():
            on_empty = "raise" if labels is None else "restart"
            learner = make(table, on_empty=on_empty, random_state=rng.spawn(1)[0])
            game = play(learner, Applicants(agents, setting), fast=True)
            rows.append(
                {
                    "run": run,
                    "learner": name,
                    "setting": setting.name,
                    "target": target if labels is None else -1,
                    "mistakes": game.mistakes,
                    "remaining": learner.remaining,
                    "error": final_error(learner, agents, losses),
                    "last_mistake": int(game.mistake_rounds[-1]) + 1 if game.mistakes else 0,
                }
            )
    return ValueOfInformation(
        pd.DataFrame(rows), hypotheses.n, m, float(np.mean(naive)), float(np.mean(oracle))
    )


def final_error(learner: Any, agents: Agents, losses: FloatArray) -> float:
    """Return the error, on all applicants, of what the learner would publish after the last one."""
    if hasattr(learner, "frozen"):
        final: Predictor = learner.frozen()
        if not isinstance(final, UnionPredictor):
            return final.loss(agents)
        return float(losses[final.members].mean())
    if isinstance(learner, UnionSamplingLearner):
        return learner.expected_loss(agents)
    return float(losses[learner.alive].mean())
