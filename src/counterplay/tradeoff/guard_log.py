"""Every decision and outcome of a champion/challenger stream, for ``counterplay verify``.

:class:`ChampionChallenger` itself keeps sums only. Where somebody else must be able to check the
harm bound, the log keeps the rounds as a chain of events.
Source: docs/theory/09-tradeoff.md, "CUSUM and the watchdog".
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from counterplay.core import export_bodies as lines
from counterplay.core.exports import EventChain, write_export
from counterplay.errors import ProtocolError
from counterplay.tradeoff.champion import ChampionChallenger


class GuardLog:
    """Run a champion/challenger stream and keep its rounds as events.

    Parameters
    ----------
    live:
        A :class:`ChampionChallenger` before its first round.

    Examples
    --------
    >>> from counterplay.tradeoff import ChampionChallenger, HarmBudget
    >>> from counterplay.verify import verify
    >>> live = ChampionChallenger(
    ...     n_models=2, horizon=400, budget=HarmBudget(0.1, 5.0), random_state=0)
    >>> log = GuardLog(live)
    >>> for _ in range(100):
    ...     _ = log.step([0.3, 0.2], [0.05, 0.2])
    >>> verify(log.export().encode()).holds
    True
    """

    def __init__(self, live: ChampionChallenger) -> None:
        if live.rounds:
            raise ProtocolError("a log starts with the first round; the stream has begun already")
        self.live = live
        self.chain = EventChain("guard")
        self._decide()

    def step(self, primary: ArrayLike, secondary: ArrayLike) -> int:
        """Report the losses of all models; return who is live next, as the stream itself does."""
        number = self.live.rounds
        following = self.live.step(primary, secondary)
        outcome = lines.Outcome(
            round=number,
            primary=tuple(np.asarray(primary, dtype=np.float64).tolist()),
            secondary=tuple(np.asarray(secondary, dtype=np.float64).tolist()),
        )
        self.chain.add("guard.outcome", msgspec.to_builtins(outcome), actor="service")
        if self.live.rounds < self.live.horizon:
            self._decide()
        return following

    def export(self, study: str = "guard") -> str:
        """Rounds and report as lines of text that ``counterplay verify`` recomputes."""
        live, report = self.live, self.live.report()
        stated = lines.GuardStated(
            rounds=report.rounds,
            played=report.played,
            harm=tuple(report.harm.tolist()),
            needed_burst=tuple(report.needed_burst.tolist()),
            live_rounds=tuple(report.live_rounds.tolist()),
            switches=report.switches,
            reviews=report.reviews,
            take_downs=live._downs,
            harm_bound=None if report.nobody_left else report.harm_bound,
        )
        config = lines.GuardConfig(
            models=live.n_models,
            horizon=live.horizon,
            rate=live.budget.rate,
            burst=live.budget.burst,
            reviews=tuple(int(t) for t in live._watchdog._resets[1:]),
        )
        chain = EventChain("guard")
        chain.events = list(self.chain.events)
        chain.add("guard.result", msgspec.to_builtins(stated), actor="guard")
        return write_export(study, "guard", msgspec.to_builtins(config), [chain])

    def _decide(self) -> None:
        live = self.live
        decided = lines.Decided(round=live.rounds, model=live.current, allowed=live.allowed)
        self.chain.add("guard.decided", msgspec.to_builtins(decided), actor="guard")
