"""The latest answer of every party as a bound on its loss at other models.

For a convex loss an old answer ``(v, F(v), G(v))`` bounds the loss everywhere: ``F(w) >= L(w) =
F(v) + <G(v), w - v>``, a *cut*. A server that keeps the cut of every party can protect those it did
not ask in this round. Where a loss is not convex, or a gradient is only the update of an ordinary
client, the bound needs a slack that grows with the distance from ``v`` and is learned from the
answers. Source: Theorems A and C in docs/theory/23-training.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from counterplay.core.validation import FloatArray
from counterplay.federated.replies import Answer
from counterplay.federated.reports import Caution

Slack = Literal["none", "curvature"]

CURVATURE = 0.5  # first guess of the curvature that a bound may miss
LEAST_CURVATURE = 0.05
FORGET = 0.95  # how fast a large curvature is forgotten, per answer
DRIFT_UP, DRIFT_DOWN = 0.3, 0.98  # how fast the linear slack of updates follows what it missed
SCALE_KEPT = 0.7  # of the scale of updates, at every answer
SCALE_RANGE = (0.2, 5.0)  # of the drop that came over the drop that was predicted


@dataclass(frozen=True, eq=False)
class Cut:
    """The latest answer of a party, the model it was about, and what its bounds have missed."""

    v: FloatArray
    answer: Answer
    gradient: FloatArray
    curvature: float = CURVATURE
    drift: float = 0.0
    scale: float = 1.0

    def bound(self, w: FloatArray) -> float:
        """``L(w)``, a lower bound of a convex loss."""
        return self.answer.loss + float(self.gradient @ (w - self.v))

    def renewed(self, w: FloatArray, answer: Answer) -> Cut:
        """The cut at ``w``, with trackers that learn how far the old one was off."""
        distance = float(np.linalg.norm(w - self.v))
        missed = self.bound(w) - answer.loss
        curvature, drift = max(FORGET * self.curvature, LEAST_CURVATURE), self.drift
        if distance > 0.0:
            # Curvature: the smallest quadratic that would have made the bound true.
            curvature = max(curvature, 2.0 * missed / distance**2)
            # Drift: a share of what the linear slack lacked, forgotten slowly.
            excess = missed / distance - drift
            drift = drift + DRIFT_UP * excess if excess > 0.0 else drift * DRIFT_DOWN
        if not answer.ordinary:
            return Cut(w, answer, answer.gradient, curvature, drift, self.scale)
        scale = self._rescaled(w, answer)
        return Cut(w, answer, scale * answer.gradient, curvature, drift, scale)

    def _rescaled(self, w: FloatArray, answer: Answer) -> float:
        """The scale of an update, moved towards what would have predicted the drop of the loss."""
        predicted = float(self.gradient @ (self.v - w))
        if predicted == 0.0:
            return self.scale
        ratio = float(np.clip((self.answer.loss - answer.loss) / predicted, *SCALE_RANGE))
        return self.scale * (SCALE_KEPT + (1.0 - SCALE_KEPT) * ratio)


class Cuts:
    """The cuts of all parties that remain, by node.

    Parameters
    ----------
    learn_scale :
        Learn the length of the updates of ordinary clients; False takes them as mean gradients.
    """

    def __init__(self, learn_scale: bool = True) -> None:
        self.learn_scale = learn_scale
        self._cuts: dict[int, Cut] = {}

    def __contains__(self, node: int) -> bool:
        return node in self._cuts

    def __len__(self) -> int:
        return len(self._cuts)

    def __getitem__(self, node: int) -> Cut:
        return self._cuts[node]

    @property
    def nodes(self) -> list[int]:
        """The parties with a cut, in the order of their first answers."""
        return list(self._cuts)

    @property
    def ordinary(self) -> bool:
        """Whether some cut rests on an update instead of a gradient."""
        return any(cut.answer.ordinary for cut in self._cuts.values())

    def take(self, node: int, w: FloatArray, answer: Answer) -> float:
        """Replace the cut of a party; return by how much its old bound was above the loss."""
        old = self._cuts.get(node)
        if old is None:
            self._cuts[node] = self._first(w, answer)
            return 0.0
        self._cuts[node] = old.renewed(w, answer)
        if answer.ordinary and not self.learn_scale:
            self._cuts[node] = replace(self._cuts[node], gradient=answer.gradient)
        return old.bound(w) - answer.loss

    def _first(self, w: FloatArray, answer: Answer) -> Cut:
        square = float(answer.gradient @ answer.gradient)
        if not answer.ordinary or not self.learn_scale or square == 0.0:
            return Cut(w, answer, answer.gradient)
        # A step along the whole gradient of this length would bring the loss to zero.
        scale = answer.loss / square
        return Cut(w, answer, scale * answer.gradient, scale=scale)

    def drop(self, node: int) -> None:
        """Forget a party."""
        self._cuts.pop(node, None)

    def fresh(self, node: int, w: FloatArray) -> bool:
        """Whether the party's latest answer is about this very model."""
        v = self._cuts[node].v
        return v is w or np.array_equal(v, w)

    def copy(self) -> dict[int, Cut]:
        """The cuts as they are now."""
        return dict(self._cuts)

    def restore(self, cuts: dict[int, Cut]) -> None:
        """Go back to earlier cuts of the parties that are still there."""
        self._cuts = {node: cut for node, cut in cuts.items() if node in self._cuts}

    def bounds(self, w: FloatArray, nodes: Iterable[int]) -> FloatArray:
        """``L_m(w)`` of some parties; their losses where they answered at ``w``."""
        return np.array([self._cuts[node].bound(w) for node in nodes])

    def caution(
        self, w: FloatArray, nodes: list[int], slack: Slack, free: Callable[[int], bool]
    ) -> Caution:
        """How far these bounds can be trusted."""
        cuts = [self._cuts[node] for node in nodes]
        curved = np.array([c.curvature if slack == "curvature" else 0.0 for c in cuts])
        ordinary = np.array([c.answer.ordinary for c in cuts])
        told = np.array([c.answer.gradient_error for c in cuts])
        return Caution(
            distance=np.array([float(np.linalg.norm(w - c.v)) for c in cuts]),
            curvature=np.where(ordinary, 0.0, curved),
            noise=told,
            drift=np.where(ordinary, [c.drift for c in cuts], 0.0),
            free=np.array([free(node) for node in nodes]),
        )
