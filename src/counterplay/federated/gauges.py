"""One round of a federation: where every party stands, who left, who was dropped, and the panel.

Source: Algorithm 5.1, see docs/theory/05-defection.md.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from counterplay.core.validation import FloatArray
from counterplay.federated.reports import Decision, Reports

if TYPE_CHECKING:
    from rich.table import Table

GOODBYE = "left"
Status = Literal[
    "running",
    "converged",
    "stalled",
    "everybody_left",
    "no_usable_answer",
    "unreachable",
    "max_rounds",
]

MEANING: dict[str, str] = {
    "running": "training goes on",
    "converged": "every party that still answers is close enough to its target",
    "stalled": "no step helps without losing a party",
    "everybody_left": "every party has left",
    "no_usable_answer": "parties answered, but no answer could be used",
    "unreachable": "no party answered",
    "max_rounds": "the last round was reached",
}


@dataclass(frozen=True)
class PartyGauge:
    """One party in one round: where it stands, or why it was not there.

    ``event`` is empty for a party that took part, ``"left"`` for a goodbye, and a sentence for a
    party that was dropped from the round.

    Examples
    --------
    >>> PartyGauge("north", 1, loss=0.5, threshold=0.25).gap
    0.25
    """

    party: str
    node: int
    loss: float = math.nan
    threshold: float = math.nan
    predicted: bool = False
    event: str = ""

    @property
    def gap(self) -> float:
        """``F_m - eps_m``: how far the party is from leaving."""
        return self.loss - self.threshold


@dataclass(frozen=True)
class RoundGauge:
    """One round of the federation: every party's gauge and what the server did.

    Examples
    --------
    >>> parties = PartyGauge("north", 1, 0.5, 0.25), PartyGauge("south", 2, event="no reply")
    >>> RoundGauge(1, parties, "running").dropped
    {'south': 'no reply'}
    """

    round: int
    parties: tuple[PartyGauge, ...]
    status: Status
    case: int = 0
    step_length: float = 0.0
    sigma_min: float = math.nan
    parallel: tuple[str, str, float] | None = None

    @classmethod
    def of(
        cls,
        round: int,
        sent: Reports,
        decision: Decision,
        status: Status | None = None,
        parties: Sequence[tuple[str, int]] | None = None,
        away: Sequence[PartyGauge] = (),
        answered: Collection[int] | None = None,
    ) -> RoundGauge:
        """Read the gauge from what was sent and decided; ``parties`` are names and nodes.

        ``answered`` are the nodes that took part; of the others only an older answer is known.
        """
        called = parties or [(f"agent {i}", int(i)) for i in sent.ids]
        gram = decision.gram if decision.gram is not None else sent.gradients.gram()
        sigma = math.sqrt(max(float(np.linalg.eigvalsh(gram)[0]), 0.0))
        if sigma <= 1e-7 * math.sqrt(max(float(np.diagonal(gram).max()), 0.0)):
            sigma = 0.0  # below what inner products in float64 resolve
        here = [
            PartyGauge(name, node, float(loss), float(eps), bool(predicted))
            for (name, node), loss, eps, predicted in zip(
                called, sent.loss, sent.eps, decision.predicted
            )
            if answered is None or node in answered
        ]
        pair = most_parallel(gram)
        return cls(
            round=round,
            parties=(*here, *away),
            status=decision.status if status is None else status,
            case=decision.case,
            step_length=math.sqrt(sent.gradients.dot(decision.step, decision.step)),
            sigma_min=sigma,
            parallel=None if pair is None else (called[pair[0]][0], called[pair[1]][0], pair[2]),
        )

    def summary(self) -> str:
        """Return one line for the federation and one per party that took part."""
        head = f"{self.status}: sigma_min {self.sigma_min:.3g}"
        if self.parallel is not None and self.status == "stalled":
            head = f"{self.status}: {parallel_sentence(self.parallel)[:-1]}; " + head.split(": ")[1]
        lines = [
            f"{p.party}: {p.gap:.4g} above its target" + (", about to leave" if p.predicted else "")
            for p in self.present
        ]
        return "\n".join([head, *lines])

    @property
    def present(self) -> tuple[PartyGauge, ...]:
        """The parties that took part."""
        return tuple(p for p in self.parties if not p.event)

    @property
    def left(self) -> tuple[str, ...]:
        """The parties that said goodbye in this round."""
        return tuple(p.party for p in self.parties if p.event == GOODBYE)

    @property
    def dropped(self) -> dict[str, str]:
        """The parties that were asked and did not take part, with the reason."""
        return {p.party: p.event for p in self.parties if p.event not in ("", GOODBYE)}

    @property
    def mean_loss(self) -> float:
        """Mean loss of the parties that took part; nan if nobody did."""
        losses = [p.loss for p in self.present if not math.isnan(p.loss)]
        return float(np.mean(losses)) if losses else math.nan

    def numbers(self) -> dict[str, int | float | list[int] | list[float]]:
        """Return the round as metrics for Flower's result."""
        gaps = [p.gap for p in self.present]
        return {
            "loss": self.mean_loss,
            "smallest-gap": min(gaps, default=math.nan),
            "largest-gap": max(gaps, default=math.nan),
            "present": len(gaps),
            "left": len(self.left),
            "dropped": len(self.dropped),
        }


def counted(rounds: int) -> str:
    """Return ``1 round`` or ``7 rounds``."""
    return f"{rounds} round{'' if rounds == 1 else 's'}"


def parallel_sentence(pair: tuple[str, str, float]) -> str:
    """Return the sentence that names the parties whose gradients block the server."""
    first, second, angle = pair
    return f"The gradients of {first} and {second} are closest to parallel, {angle:.2g} degrees."


def panel(gauge: RoundGauge) -> Table:
    """Return the health gauge of a round as a table for the terminal."""
    from rich.markup import escape
    from rich.table import Table

    sigma = gauge.sigma_min
    health = "" if math.isnan(sigma) else f", smallest singular value {sigma:.3g}"
    table = Table(title=f"round {gauge.round}: {gauge.status}{health}", title_justify="left")
    table.add_column("party")
    for column in ("loss", "target", "above target"):
        table.add_column(column, justify="right")
    table.add_column("state")
    for p in sorted(gauge.parties, key=lambda p: p.party):
        if p.event:
            table.add_row(escape(p.party), "", "", "", escape(p.event))
        else:
            state = "could leave next" if p.predicted else "stays"
            numbers = (f"{p.loss:.4f}", f"{p.threshold:.4f}", f"{p.gap:+.4f}")
            table.add_row(escape(p.party), *numbers, state)
    if gauge.parallel is not None and gauge.status == "stalled":
        table.caption = escape(parallel_sentence(gauge.parallel))
    return table


def most_parallel(gram: FloatArray) -> tuple[int, int, float] | None:
    """Return the two rows whose vectors lie closest to one line, and the angle in degrees.

    Examples
    --------
    >>> most_parallel(np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 0.0], [2.0, 0.0, 4.0]]))
    (0, 2, 0.0)
    """
    norms = np.sqrt(np.maximum(np.diagonal(gram), 0.0))
    if (norms > 0.0).sum() < 2:
        return None
    safe = np.where(norms > 0.0, norms, np.inf)
    cosines = np.triu(np.abs(gram) / np.outer(safe, safe), k=1)
    i, j = np.unravel_index(int(cosines.argmax()), cosines.shape)
    angle = math.degrees(math.acos(min(float(cosines[i, j]), 1.0)))
    return int(i), int(j), angle
