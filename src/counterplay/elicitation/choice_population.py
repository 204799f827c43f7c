"""How tastes are spread over people, learnt from recorded choices: a hierarchical logit.

Everybody has own tastes beta_i ~ N(b, Omega) and chooses by a multinomial logit. The posterior is
sampled by Gibbs steps for b and Omega and a random walk for all people at once. A new person's
tastes are the mixture over the kept draws, reweighted by the likelihood of her own choices.
Source: docs/theory/26-people.md, "Recorded choices"; Allenby and Rossi (1999), Train (2009).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.figures import PALETTE, axes_or_new, figure_style
from counterplay.core.report import Report
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import BoolArray, FloatArray, IntArray, check_int
from counterplay.elicitation.catalogue import Catalogue
from counterplay.elicitation.choice_panel import ChoicePanel, ranks_within
from counterplay.errors import InvalidInputError
from counterplay.tables.cells import shown

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_PEOPLE = 4000  # particles of a prediction
_ACCEPTED = 0.3


@checked(arrays=True)
@dataclass(frozen=True, eq=False)
class Population(Report):
    """Tastes of a population, in utility per unit of each attribute.

    ``draws`` are kept posterior draws of the mean taste and of the covariance between people.

    Examples
    --------
    >>> import pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> rows = [(i, t, a, x) for i in range(40) for t in range(6)
    ...         for a, x in enumerate(rng.random(2))]
    >>> frame = pd.DataFrame(rows, columns=["who", "task", "item", "price"])
    >>> cheap = frame.groupby(["who", "task"]).price.transform("min")
    >>> frame["taken"] = frame.price == cheap
    >>> panel = ChoicePanel(frame, person="who", task="task", alternative="item", chosen="taken",
    ...                     attributes=["price"])
    >>> bool(panel.fit_population(random_state=0).mean["price"] < 0)
    True
    """

    attributes: tuple[str, ...]
    scale: FloatArray = field(repr=False)
    """Standard deviation of each attribute within sets; tastes are sampled in these units."""
    draws: tuple[tuple[FloatArray, FloatArray], ...] = field(repr=False)
    """Mean taste and covariance of every kept draw, in units of ``scale``."""
    pooled: FloatArray = field(repr=False)
    """Tastes of one person who stands for all (a pooled logit), in units of ``scale``."""
    acceptance: float
    n_people: int
    n_choices: int
    explained: bool = False
    """Whether one taste explains every choice: then only its direction is known."""

    @property
    def mean(self) -> pd.Series:
        """Mean taste per unit of each attribute."""
        import pandas as pd

        found = np.mean([b for b, _ in self.draws], axis=0) / self.scale
        return pd.Series(found, index=list(self.attributes), name="mean")

    @property
    def spread(self) -> pd.Series:
        """Standard deviation of tastes over people, per unit of each attribute.

        0 where nobody chose twice: all are taken to be alike, for nothing tells how they differ.
        """
        import pandas as pd

        variance = np.mean([np.diag(omega) for _, omega in self.draws], axis=0)
        return pd.Series(np.sqrt(variance) / self.scale, list(self.attributes), name="spread")

    @property
    def uncertainty(self) -> pd.Series:
        """Posterior standard deviation of the mean taste; NaN where only one draw was made."""
        import pandas as pd

        found = np.std([b for b, _ in self.draws], axis=0) / self.scale
        found = np.where(len(self.draws) > 1, found, np.nan)
        return pd.Series(found, index=list(self.attributes), name="uncertainty")

    def to_frame(self) -> pd.DataFrame:
        """Return one row per attribute; NaN where the choices tell nothing."""
        import pandas as pd

        people = self._people(_PEOPLE, np.random.default_rng(0))
        frame = pd.concat([self.mean, self.uncertainty, self.spread], axis=1)
        frame["share_positive"] = (people > 0).mean(axis=0)
        frame.loc[frame["spread"] == 0, ["spread", "share_positive"]] = np.nan  # not known
        return frame.rename_axis("attribute")

    def summary(self) -> str:
        """Return mean tastes and how much people differ."""
        lines = [f"tastes of {self.n_people} people from {self.n_choices} choices, per unit:"]
        for name, row in self.to_frame().iterrows():
            sure = "" if np.isnan(row["uncertainty"]) else f" (+- {row['uncertainty']:.2g})"
            told = f"{name}: {row['mean']:.4g} on average{sure}"
            if not np.isnan(row["spread"]):
                told += f", {row['spread']:.4g} between people"
                told += f"; {100 * row['share_positive']:.0f} % want more"
            lines.append(told)
        if (self.spread == 0).all():
            lines.append("one choice per person: how people differ is not known")
        if self.explained:
            lines.append(
                "one taste explains every choice: its direction is known, its strength is not; "
                "the numbers above have no meaning beyond their signs"
            )
        return "\n".join(lines)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw mean tastes with the spread between people, in units of each attribute's scale."""
        with figure_style():
            axes = axes_or_new(ax)
            at = np.arange(len(self.attributes))
            mean, spread = self.mean.to_numpy() * self.scale, self.spread.to_numpy() * self.scale
            axes.errorbar(at, mean, yerr=spread, fmt="o", color=PALETTE[0], capsize=3)
            axes.axhline(0.0, color="0.5", lw=0.8)
            axes.set_xticks(at, list(self.attributes), rotation=15)
            axes.set_ylabel("utility per standard deviation\n(bar: spread between people)")
        return axes

    def predict_choice(
        self, panel: ChoicePanel, after: ChoicePanel | None = None, random_state: RandomState = 0
    ) -> pd.Series:
        """Return the probability of every alternative of every task.

        Parameters
        ----------
        panel:
            The tasks; what was chosen in them is not used.
        after:
            Earlier choices of the same people, who are matched by name. None: nothing is known
            about anybody.
        random_state:
            Seed of the sampled tastes.
        """
        import pandas as pd

        people = self._people(_PEOPLE, generator(random_state))
        values, there, _ = self._padded(panel)
        logs = self._known(panel, after, people)
        chances = np.empty(there.shape)
        for c in range(len(values)):
            shares = logs[panel.who[c]]
            chances[c] = shares @ _softmax(people @ values[c].T, there[c])
        found = chances[panel.set_of, panel.place]
        return pd.Series(found, index=panel.index, name="probability")

    def score(
        self, panel: ChoicePanel, reveal: int = 4, random_state: RandomState = 0
    ) -> PanelScore:
        """Predict the later choices of new people after their first ``reveal`` ones.

        Parameters
        ----------
        panel:
            Choices of people who were not used for the fit.
        reveal:
            Number of choices per person that may be looked at.
        random_state:
            Seed of sampled tastes and of the bootstrap over people.
        """
        n = check_int(reveal, "reveal", low=0)
        rng = generator(random_state)
        early = ranks_within(panel.who) < n
        if early.all():
            raise InvalidInputError(f"nobody has more than {n} choices; reveal fewer")
        later = panel.subset(~early)
        after = panel.subset(early) if early.any() else None
        chance = self.predict_choice(later, after, rng).to_numpy()
        values, there, picked = self._padded(later)
        pooled = _softmax(values @ self.pooled, there)
        at = np.arange(len(picked))
        ours = np.zeros(there.shape)
        ours[later.set_of, later.place] = chance
        return PanelScore.of(ours[at, picked], ours.argmax(axis=1) == picked,
                             pooled[at, picked], pooled.argmax(axis=1) == picked,
                             later.who, n, rng)  # fmt: skip

    def particles(
        self, n: int, catalogue: Catalogue | None, random_state: RandomState = None
    ) -> FloatArray:
        """Return weights (n, k) of people for the items of a catalogue.

        Parameters
        ----------
        n:
            Number of people.
        catalogue:
            Its columns must be the attributes of the panel, in the same units.
        random_state:
            Seed.
        """
        if catalogue is None:
            raise InvalidInputError("a population as a prior needs a Catalogue with its attributes")
        strange = [c for c in catalogue.columns if c not in self.attributes]
        if strange:
            raise InvalidInputError(
                f"the population knows nothing about {strange[0]!r:.60}; it knows "
                f"{', '.join(self.attributes)}"
            )
        rng = generator(random_state)
        places = [self.attributes.index(column) for column in catalogue.columns]
        kept: list[FloatArray] = []
        for _ in range(50):
            tastes = (self._people(4 * n, rng) / self.scale)[:, places]
            kept.append(catalogue.weights_of(tastes))
            if sum(map(len, kept)) >= n:
                return np.vstack(kept)[:n]
        raise InvalidInputError(
            "hardly anybody of the population wants more of every benefit and less of every cost; "
            "name such attributes in either="
        )

    def _people(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Tastes of ``n`` new people: the mixture over the kept draws."""
        k = len(self.attributes)
        which = np.arange(n) % len(self.draws)
        noise = rng.standard_normal((n, k))
        people = np.empty((n, k))
        for d, (b, omega) in enumerate(self.draws):
            rows = which == d
            people[rows] = b + noise[rows] @ _root(omega).T
        return people

    def _padded(self, panel: ChoicePanel) -> tuple[FloatArray, BoolArray, IntArray]:
        if panel.attributes != self.attributes:
            raise InvalidInputError(
                f"the panel has the attributes {', '.join(panel.attributes)}, the population "
                f"{', '.join(self.attributes)}"
            )
        values, there, picked = panel.padded()
        return values / self.scale, there, picked

    def _known(
        self, panel: ChoicePanel, after: ChoicePanel | None, people: FloatArray
    ) -> FloatArray:
        """Posterior shares (P, N) of the particles for every person of the panel."""
        logs = np.zeros((panel.n_people, len(people)))
        if after is not None:
            values, there, picked = self._padded(after)
            known = {who: i for i, who in enumerate(panel.people)}
            if not any(person in known for person in after.people):
                raise InvalidInputError(
                    f"nobody of after= is in the panel: there {shown(after.people[0], 40)}, here "
                    f"{shown(panel.people[0], 40)}"
                )
            for c in range(len(values)):
                at = known.get(after.people[after.who[c]])
                if at is not None:
                    chance = _softmax(people @ values[c].T, there[c])[:, picked[c]]
                    logs[at] += np.log(np.maximum(chance, 1e-300))
        shares = np.exp(logs - logs.max(axis=1, keepdims=True))
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))


@checked
@dataclass(frozen=True, eq=False)
class PanelScore(Report):
    """How well later choices of new people are predicted, beside one taste for all.

    Examples
    --------
    >>> score = PanelScore.of(np.full(40, 0.8), np.ones(40, bool), np.full(40, 0.5),
    ...     np.ones(40, bool), np.repeat(np.arange(10), 4), 4, np.random.default_rng(0))
    >>> round(score.log_loss, 3), round(score.gain, 3)
    (0.223, 0.47)
    """

    reveal: int
    log_loss: float
    accuracy: float
    pooled_log_loss: float
    pooled_accuracy: float
    gain: float
    """Pooled log loss minus ours."""
    gain_interval: tuple[float, float]
    """95 % interval of the gain, by bootstrap over people."""
    n_people: int
    n_choices: int

    @classmethod
    def of(
        cls,
        ours: FloatArray,
        right: BoolArray,
        pooled: FloatArray,
        pooled_right: BoolArray,
        who: IntArray,
        reveal: int,
        rng: np.random.Generator,
    ) -> PanelScore:
        """Return the score of probabilities that were given to what was chosen."""
        loss, other = -np.log(np.maximum(ours, 1e-300)), -np.log(np.maximum(pooled, 1e-300))
        gain, interval = paired_gain(other, loss, who, rng)
        return cls(
            reveal, float(loss.mean()), float(right.mean()), float(other.mean()),
            float(pooled_right.mean()), gain, interval, len(np.unique(who)), len(ours),
        )  # fmt: skip

    def summary(self) -> str:
        """Return both scores and the gain with its interval."""
        low, high = self.gain_interval
        sure = f"[{low:.3f}, {high:.3f}] (95 % over people)"
        if self.n_people == 1:
            sure = "(one person: no interval)"
        return (
            f"{self.n_choices} choices of {self.n_people} new people, after {self.reveal} of their "
            f"own: log loss {self.log_loss:.3f}, {100 * self.accuracy:.1f} % right; one taste for "
            f"all: {self.pooled_log_loss:.3f}, {100 * self.pooled_accuracy:.1f} % right; gain "
            f"{self.gain:.3f} {sure}"
        )

    def to_frame(self) -> pd.DataFrame:
        """Return one row per method."""
        import pandas as pd

        rows = {
            "hierarchical": (self.log_loss, self.accuracy),
            "pooled logit": (self.pooled_log_loss, self.pooled_accuracy),
        }
        frame = pd.DataFrame(rows, index=["log_loss", "accuracy"]).T
        return frame.rename_axis("method")


def paired_gain(
    before: FloatArray, after: FloatArray, who: IntArray, rng: np.random.Generator
) -> tuple[float, tuple[float, float]]:
    """Return the mean difference and its 95 % interval by a bootstrap over people.

    One person has no interval: NaN.
    """
    sums = np.bincount(who, before - after)
    counts = np.bincount(who).astype(float)
    sums, counts = sums[counts > 0], counts[counts > 0]
    if len(sums) < 2:
        return float(sums.sum() / counts.sum()), (float("nan"), float("nan"))
    drawn = rng.multinomial(len(sums), np.full(len(sums), 1 / len(sums)), size=2000)
    means = (drawn @ sums) / (drawn @ counts)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(sums.sum() / counts.sum()), (float(low), float(high))


def fit_population(
    panel: ChoicePanel, random_state: RandomState = None, iterations: int = 2000, kept: int = 30
) -> Population:
    """Sample the posterior of a hierarchical logit; :meth:`ChoicePanel.fit_population`."""
    total = check_int(iterations, "iterations", low=100)
    keep = check_int(kept, "kept", low=1, high=total // 2)
    rng = generator(random_state)
    values, there, picked = panel.padded()
    means = (values * there[:, :, None]).sum(axis=1) / there.sum(axis=1)[:, None]
    within = (values - means[:, None])[there]
    scale = within.std(axis=0)
    values = np.where(there[:, :, None], values / scale, 0.0)
    pooled = pooled_logit(values, there, picked)
    if np.bincount(panel.who).max() == 1:
        alike: FloatArray = np.zeros((len(pooled), len(pooled)))
        draws: tuple[tuple[FloatArray, FloatArray], ...] = ((pooled, alike),)
        acceptance = 1.0
    else:
        draws, acceptance = _gibbs(values, there, picked, panel.who, pooled, rng, total, keep)
    worth = np.where(there, values @ pooled, -np.inf)
    surely = _softmax(worth, there)[np.arange(len(picked)), picked].min() > 0.999
    return Population(
        panel.attributes, scale, draws, pooled, acceptance, panel.n_people, panel.n_choices,
        bool(surely),
    )  # fmt: skip


def pooled_logit(
    values: FloatArray,
    there: BoolArray,
    picked: IntArray,
    ridge: float = 0.0,
    centre: FloatArray | None = None,
) -> FloatArray:
    """Return the tastes of a multinomial logit, drawn towards ``centre`` by ``ridge``."""
    from scipy.optimize import minimize

    k = values.shape[2]
    middle = np.zeros(k) if centre is None else centre
    chosen = values[np.arange(len(picked)), picked].sum(axis=0)

    def loss(beta: FloatArray) -> tuple[float, FloatArray]:
        worth = np.where(there, values @ beta, -np.inf)
        top = worth.max(axis=1, keepdims=True)
        parts = np.exp(worth - top)
        total = parts.sum(axis=1, keepdims=True)
        value = float((top[:, 0] + np.log(total[:, 0])).sum() - chosen @ beta)
        slope = np.einsum("cm,cmk->k", parts / total, values) - chosen
        pull = beta - middle
        return value + 0.5 * ridge * float(pull @ pull), slope + ridge * pull

    return np.asarray(minimize(loss, middle, jac=True, method="L-BFGS-B").x)


def _gibbs(
    values: FloatArray,
    there: BoolArray,
    picked: IntArray,
    who: IntArray,
    start: FloatArray,
    rng: np.random.Generator,
    total: int,
    keep: int,
) -> tuple[tuple[tuple[FloatArray, FloatArray], ...], float]:
    """Return kept draws of mean and covariance, and the share of accepted steps at the end."""
    from scipy.stats import invwishart

    P, k = int(who.max()) + 1, values.shape[2]
    away = np.where(there, 0.0, -np.inf)
    chosen = values[np.arange(len(picked)), picked]

    def likelihood(beta: FloatArray) -> FloatArray:
        own = beta[who]
        worth = np.einsum("cmk,ck->cm", values, own) + away
        top = worth.max(axis=1)
        logs = np.einsum("ck,ck->c", chosen, own) - top
        logs -= np.log(np.exp(worth - top[:, None]).sum(axis=1))
        return np.asarray(np.bincount(who, logs, minlength=P), dtype=np.float64)

    beta = np.tile(start, (P, 1))
    b, omega, step = start, np.eye(k), 0.1
    now = likelihood(beta)
    draws, accepted = [], 0.0
    at = set(np.linspace(total // 2, total - 1, keep).astype(int).tolist())
    for iteration in range(total):
        # mean given tastes, covariance given both
        b = rng.multivariate_normal(beta.mean(axis=0), omega / P, method="cholesky")
        apart = beta - b
        omega = np.atleast_2d(
            invwishart.rvs(k + P, k * np.eye(k) + apart.T @ apart, random_state=rng)
        )
        # one random-walk step of everybody
        root, inverse = np.linalg.cholesky(omega), np.linalg.inv(omega)
        moved = beta + step * rng.standard_normal((P, k)) @ root.T
        then = likelihood(moved)
        old, new = beta - b, moved - b
        change = then - now + 0.5 * np.einsum("pi,ij,pj->p", old, inverse, old)
        change -= 0.5 * np.einsum("pi,ij,pj->p", new, inverse, new)
        take = np.log(rng.random(P)) < change
        beta[take], now[take] = moved[take], then[take]
        share = float(take.mean())
        step *= 1.1 if share > _ACCEPTED else 0.9
        if iteration >= total // 2:
            accepted += share / (total - total // 2)
        if iteration in at:
            draws.append((b.copy(), omega.copy()))
    return tuple(draws), accepted


def _softmax(worth: FloatArray, there: BoolArray) -> FloatArray:
    worth = np.where(there, worth, -np.inf)
    parts = np.exp(worth - worth.max(axis=-1, keepdims=True))
    return np.asarray(parts / parts.sum(axis=-1, keepdims=True))


def _root(omega: FloatArray) -> FloatArray:
    values, vectors = np.linalg.eigh(omega)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
