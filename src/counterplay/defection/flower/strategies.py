"""ADA-GD and SafeStep as Flower strategies: one line instead of Flower's FedAvg.

Source: spec 05 sections 3.5 to 3.7 and 8.
"""

from __future__ import annotations

from typing import Any, Literal

from counterplay.defection.flower.base import RuleStrategy, StepSize
from counterplay.defection.rules import ADAGD
from counterplay.defection.rules import SafeStep as SafeStepRule


class AdaGD(RuleStrategy):
    """ADA-GD on Flower: predict who is about to leave and move orthogonally to their gradients.

    Use it instead of ``flwr.serverapp.strategy.FedAvg`` when parties leave once the model is good
    enough for them; :class:`SafeStep` does the same in fewer rounds.

    Parameters
    ----------
    delta :
        Safety margin: parties are kept above ``threshold + delta``.
    step_size :
        ``eta``; with convex, smooth losses ``adagd_step_size`` gives the value of the theorem.
    variant :
        How local steps enter, see :class:`counterplay.defection.ADAGD`.
    z :
        Adds ``z`` standard errors of the reported losses to ``delta``.
    **options :
        As in :class:`RuleStrategy`.

    Guarantees
    ----------
    Convex losses, full participation, exact gradients: no party ever leaves, for any step size. If
    it ends with status ``converged`` and ``step_size`` is small enough, every loss is within
    ``threshold + 2 delta`` (Thm. thm:two_agents).

    Examples
    --------
    >>> AdaGD(delta=0.02, step_size=0.05, threshold=0.2).rule
    ADAGD(delta=0.02, variant='anchored', z=0.0, stall_tol=1e-09)

    References
    ----------
    Alg. alg:reweight, Thm. thm:two_agents; spec 05 sections 3.5 and 3.6.
    """

    def __init__(
        self,
        *,
        delta: float,
        step_size: StepSize,
        variant: Literal["anchored", "naive", "exact"] = "anchored",
        z: float = 0.0,
        **options: Any,
    ) -> None:
        super().__init__(ADAGD(delta, variant=variant, z=z), step_size=step_size, **options)


class SafeStep(RuleStrategy):
    """SafeStep on Flower: the averaged step, bent as little as necessary so that nobody can leave.

    Use it instead of ``flwr.serverapp.strategy.FedAvg`` when parties leave once the model is good
    enough for them. The recommended strategy.

    Parameters
    ----------
    delta :
        Safety margin: the run ends when every loss is at most ``threshold + 2 delta``.
    step_size :
        ``eta``; for losses with ``H``-Lipschitz gradients at most ``1 / H``.
    cap :
        Longest step: ``"eta"`` (default, for neural networks), a number, or None for the convex
        theory.
    z :
        Adds ``z`` standard errors of the reported losses to the margin.
    **options :
        As in :class:`RuleStrategy`.

    Guarantees
    ----------
    Convex losses, full participation, exact gradients: no party ever leaves, for any step size;
    the mean loss never rises for ``step_size <= 1/H`` (spec 05 section 3.7).

    Examples
    --------
    >>> SafeStep(delta=0.02, step_size=0.5, threshold=0.2).rule
    SafeStep(delta=0.02, cap='eta', z=0.0, stall_tol=1e-12)

    References
    ----------
    Spec 05 section 3.7.
    """

    def __init__(
        self,
        *,
        delta: float,
        step_size: StepSize,
        cap: float | Literal["eta"] | None = "eta",
        z: float = 0.0,
        **options: Any,
    ) -> None:
        super().__init__(SafeStepRule(delta, cap=cap, z=z), step_size=step_size, **options)
