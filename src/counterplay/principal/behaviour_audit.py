"""Report how the other side behaved, as far as a log of the relationship can show it.

Offers and outcomes show whether answers rise with the incentive. With actions and their costs the
regret per offer has limits. With states and the game there is swap regret, what was at stake,
secret information and alignment. A theorem is named only for a transcript of its mechanism.
Source: docs/theory/25-offers.md, "Audits"; Assumptions 7.1, 7.2 and F.1 of
docs/theory/07-principal.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import FloatArray, IntArray, check_fraction, check_open_fraction
from counterplay.errors import InvalidInputError
from counterplay.principal.behaviour import Stage, behaviour, conditional_bias
from counterplay.principal.behaviour_report import BehaviourReport, Replicated
from counterplay.principal.betting import betting_limits
from counterplay.principal.fitting import fit_game
from counterplay.principal.games import PrincipalAgentGame, check_codes
from counterplay.principal.mechanisms import Kind
from counterplay.principal.offer_actions import action_regret
from counterplay.principal.offer_log import read_columns
from counterplay.principal.offer_terms import Kind as Terms
from counterplay.principal.transcript import ContractTranscript

_ROUNDING = 1e-12
_PERMUTATIONS = 199


@checked
def behaviour_audit(
    log: Any,
    game: PrincipalAgentGame | None = None,
    *,
    offer: str = "offer",
    outcome: str = "outcome",
    action: str | None = None,
    state: str | None = None,
    recommendation: str | None = None,
    terms: Terms = "commission",
    costs: Mapping[Any, float] | None = None,
    level: float = 0.95,
    tolerance: float = 0.1,
    random_state: RandomState = 0,
) -> BehaviourReport:
    """How did the other side behave, relative to what was at stake, and what cannot be seen?

    Parameters
    ----------
    log:
        A frame or dictionary, or a :class:`ContractTranscript` of ``play`` (all its replicates are
        used, and it knows its game).
    game:
        The stage game, if states were seen. Offers are its policies; actions, states and
        recommendations are its codes or names.
    offer:
        Column of the offers.
    outcome:
        Column of the outcomes (without a game).
    action:
        Column of what he did; ``"action"`` with a game.
    state:
        Column of the states; ``"state"`` with a game.
    recommendation:
        Column of the recommendations; with a game ``"recommendation"`` if the log has it.
    terms:
        What an offer is, see :func:`fit_game` (without a game).
    costs:
        Cost of each action in money (without a game): the regret per offer then has limits.
    level:
        Confidence of the limits.
    tolerance:
        Share of the stakes up to which a regret is small.
    random_state:
        Seed of the permutations.

    Notes
    -----
    With a game the limits are betting confidence sequences: he chooses how often he plays what, so
    a limit for a fixed number of rounds would not do. They assume that the habit within a context
    does not change.

    Examples
    --------
    >>> import numpy as np
    >>> from counterplay.principal import LinearContractGame, behaviour_audit
    >>> game = LinearContractGame([[0, 0], [0.02, 0.1]], [0, 0.04])
    >>> log = {"offer": [0.1] * 400, "action": [1] * 400, "state": [0, 1] * 200}
    >>> report = behaviour_audit(log, game)      # working at a share of 0.1 never pays
    >>> round(report.relative, 2), report.verdict
    (1.0, 'large')

    References
    ----------
    "Audits", see docs/theory/25-offers.md; "Behaviour of the Agent", see
    docs/theory/07-principal.md.
    """
    check_open_fraction(level, "level")
    check_fraction(tolerance, "tolerance")
    if game is not None or isinstance(log, ContractTranscript):
        wanted = {"offer": offer, "action": action or "action", "state": state or "state"}
        return _with_game(
            log, game, wanted, recommendation, level=level, tolerance=tolerance, seed=random_state
        )
    if state is not None or recommendation is not None:
        raise InvalidInputError("give the game when the log has states or recommendations")
    fit = fit_game(
        log, offer=offer, outcome=outcome, terms=terms, action=action, level=level,
        random_state=random_state, **_money(terms, log, offer),
    )  # fmt: skip
    if costs is not None:
        if fit.log.action is None:
            raise InvalidInputError("costs are those of actions: name their column with action=")
        regret, low, high, stakes = action_regret(fit.log, costs, level)
        return BehaviourReport(
            "actions", len(fit.log), regret, low, high, stakes, level, tolerance, fit
        )
    unknown, least = float("nan"), fit.smallest_regret
    low = 0.0 if fit.monotone else max(_least_regret(fit), 0.0)
    return BehaviourReport(
        "offers", len(fit.log), least, low, float("inf"), unknown, level, tolerance, fit
    )


def _money(terms: str, log: Any, offer: str) -> dict[str, Any]:
    """Margins do not matter for his behaviour; give terms that need one any that is allowed."""
    if terms not in ("discount", "bonus"):
        return {"unit_cost": -1.0} if terms == "price" else {}
    if terms == "discount":
        return {"list_price": 1.0}
    table = read_columns(log, {"offer": offer})
    assert table.names is not None
    return {"unit_value": 1.0 + float(table.column(table.names.index(offer)).max())}


def _least_regret(fit: Any) -> float:
    """Lower limit of the smallest regret: half the largest product of a gap and a sure fall."""
    groups = fit.band.groups
    own = fit.band.blocks.first == fit.band.blocks.last
    low, high = (limits[own] for limits in fit.band.limits)
    pay = fit.terms.pay((groups.low + groups.high) / 2)
    fall = low[:, None] - high[None, :]  # from a weaker to a stronger offer
    return float((np.maximum(pay[None, :] - pay[:, None], 0.0) * fall).max() / 2)


def _with_game(
    log: Any,
    game: PrincipalAgentGame | None,
    wanted: dict[str, str],
    recommendation: str | None,
    *,
    level: float,
    tolerance: float,
    seed: RandomState,
) -> BehaviourReport:
    stage, actions, forecasts, advised = _read(log, game, wanted, recommendation)
    measured = tuple(behaviour(stage, column) for column in actions.T)
    stakes, principal_stakes = stage.stakes
    rate = cost = excess = float("nan")
    if advised:
        obeyed = float(stage.principal_values(stage.r).mean())
        cost = obeyed - float(stage.principal_values(actions).mean())
        excess = max(cost - float(np.mean([b.utility_gap for b in measured])), 0.0)
        rate = float((actions != stage.r[:, None]).mean())
    if isinstance(log, ContractTranscript) and "a0" in log.columns:
        excess = log.alignment_constants(M1=1.0)
    bias = None if forecasts is None else conditional_bias(forecasts, stage.y, stage.contexts)[1]
    limits = np.array([swap_limits(stage, column, level) for column in actions.T])
    found = Replicated(
        behaviours=measured,
        principal_stakes=principal_stakes,
        secret_p_value=_permutation_test(stage, actions, _PERMUTATIONS, seed),
        alignment_M2=excess,
        deviation_rate=rate,
        deviation_cost=cost,
        bias=bias,
        mechanism=_mechanism(log),
    )
    regret = float(found.each("swap_regret").mean())
    low, high = limits.mean(axis=0)
    return BehaviourReport(
        "game", len(stage), regret, float(low), float(high), stakes, level, tolerance, game=found
    )


def swap_limits(stage: Stage, actions: IntArray, level: float) -> tuple[float, float]:
    """Limits of the swap regret per round of the habit behind the actions.

    For every context, played action and alternative the gain of the change is bounded by its
    smallest and largest value over the states; the limits share the error among all of them.
    """
    T, codes = len(stage), stage.contexts * stage.U.shape[1] + actions
    cells = []
    for code in np.unique(codes):
        rows = np.flatnonzero(codes == code)
        policy, played = stage.local[rows[0]], int(actions[rows[0]])
        U = stage.U[policy]
        others = [b for b in range(int(stage.sizes[policy])) if b != played]
        cells.append((rows, U[others] - U[played]))
    count = sum(len(gains) for _, gains in cells)
    low = high = 0.0
    for rows, gains in cells:
        best = [0.0, 0.0]
        for gain in gains:
            values = gain[stage.y[rows]]
            ends = float(gain.min()), float(gain.max())
            limits = betting_limits(values, *ends, level=1.0 - (1.0 - level) / max(count, 1))
            best = [max(old, new) for old, new in zip(best, limits)]
        low += rows.size * best[0] / T
        high += rows.size * best[1] / T
    return low, high


def _mechanism(log: Any) -> Kind | None:
    """The kind of mechanism that made a transcript; its theorem needs recommendations that vary."""
    if not isinstance(log, ContractTranscript):
        return None
    return log.kind if log.fixed_recommendation is None else "other"


def _read(
    log: Any,
    game: PrincipalAgentGame | None,
    wanted: dict[str, str],
    recommendation: str | None,
) -> tuple[Stage, IntArray, FloatArray | None, bool]:
    """Stage, actions, forecasts, and whether there were recommendations."""
    if isinstance(log, ContractTranscript):
        forecasts = log["pi"] if "pi" in log.columns else None
        return log.stage, log.actions, forecasts, True
    assert game is not None
    columns = _columns(log, wanted, recommendation)
    policies = [game.check_policy(policy) for policy in columns["offer"]]
    distinct = {policy: i for i, policy in enumerate(dict.fromkeys(policies))}
    states = getattr(game, "state_names", None) or [str(y) for y in range(game.n_states)]

    @cache
    def labels(policy: Any) -> list[str]:
        return [game.action_label(policy, a) for a in range(game.n_actions(policy))]

    def actions_of(row: int) -> list[str]:
        return labels(policies[row]) if row < len(policies) else []

    stage = Stage(
        game,
        tuple(distinct),
        np.array([distinct[policy] for policy in policies], dtype=np.int64),
        check_codes(columns["recommendation"], "recommendation", actions_of),
        check_codes(columns["state"], "state", lambda _: states),
    )
    actions = stage.check_actions(check_codes(columns["action"], "action", actions_of))
    return stage, actions, None, columns["advised"]


def _columns(log: Any, wanted: dict[str, str], recommendation: str | None) -> dict[str, Any]:
    """Return the columns by what they are; a frame may have others."""
    if isinstance(log, Mapping):
        given: Any = log
        missing = [name for name in wanted.values() if name not in log]
        if missing:
            raise InvalidInputError(f"the log lacks the column(s) {', '.join(missing)}")
    else:
        table = read_columns(log, {**wanted, "recommendation": recommendation})
        assert table.names is not None
        given = {name: table.column(j) for j, name in enumerate(table.names)}
    advice = recommendation or "recommendation"
    if recommendation is not None and advice not in given:
        raise InvalidInputError(f"the log lacks the column(s) {advice}")
    found = {key: given[name] for key, name in wanted.items()}
    found["offer"] = list(found["offer"])
    found["advised"] = advice in given
    found["recommendation"] = given[advice] if advice in given else [0] * len(found["offer"])
    return found


def _permutation_test(
    stage: Stage, actions: IntArray, times: int, random_state: RandomState
) -> float:
    """Permute the actions within every context and compare the secret-information statistic.

    All replicates saw the same states, so their actions are permuted together.
    """

    def statistic(a: IntArray) -> float:
        return float(np.mean([behaviour(stage, column).secret_information for column in a.T]))

    rng, observed = generator(random_state), statistic(actions)
    order = np.argsort(stage.contexts, kind="stable")
    reached = 0
    shuffled = np.empty_like(actions)
    for _ in range(times):
        mixed = np.lexsort((rng.random(len(actions)), stage.contexts))
        shuffled[order] = actions[mixed]
        reached += statistic(shuffled) >= observed - _ROUNDING
    return (1 + reached) / (1 + times)
