"""The front door of offers: a user's log in, an :class:`OfferFit` out.

Source: docs/theory/25-offers.md, "Setting".
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import check_open_fraction, check_real
from counterplay.errors import InvalidInputError
from counterplay.principal.offer_fit import OfferFit
from counterplay.principal.offer_groups import LEAST_OFF, LEAST_ROWS
from counterplay.principal.offer_log import OfferLog, read_offer_log
from counterplay.principal.offer_terms import Kind, Terms
from counterplay.principal.response_band import response_band
from counterplay.tables.cells import shown


@checked(nonfinite=("ceiling",))
def fit_game(
    log: Any,
    *,
    offer: str = "offer",
    outcome: str = "outcome",
    terms: Kind = "commission",
    agent: str | None = None,
    time: str | None = None,
    within: str | None = None,
    action: str | None = None,
    unit_cost: float = 0.0,
    list_price: float | None = None,
    unit_value: float | None = None,
    floor: float = 0.0,
    ceiling: float | None = None,
    level: float = 0.95,
    slack: float = 0.0,
    missing: Literal["error", "drop"] = "error",
    currency: str = "",
    random_state: RandomState = 0,
) -> OfferFit:
    """Read a log of offers and outcomes: what it shows, what it cannot show, what to offer next.

    Use it when you have made different offers (commissions, fees, prices, discounts, bonuses) and
    have seen what came of them, and nothing else. It assumes that the other side answers each offer
    well, so that the response never falls with the incentive, and that rows are independent given
    the offers; :meth:`OfferFit.checks` tests both where the log can tell.

    Parameters
    ----------
    log:
        A frame or dictionary, one row per round.
    offer:
        Column of the offers.
    outcome:
        Column of the outcomes: revenue, units, successes; in the user's units.
    terms:
        What an offer is: ``commission`` (share paid), ``fee`` (share kept), ``price``,
        ``discount``, ``bonus``, or ``arms`` (no order, no statement on untried arms; the outcome
        is our money).
    agent:
        Column of the other side's id, if rows of one agent are dependent.
    time:
        Column of the time, for the checks of drift and carry-over.
    within:
        Column of strata: offers are compared within them (months, regions).
    action:
        Column of what the other side did, if seen; names the costs.
    unit_cost:
        What a unit costs you (``price``, ``discount``).
    list_price:
        Price before the discount (``discount``).
    unit_value:
        What a success is worth to you (``bonus``).
    floor:
        Smallest possible outcome.
    ceiling:
        Largest possible mean outcome; None if there is none.
    level:
        Confidence of all limits together.
    slack:
        Money per round by which answers may miss the best one (a sensitivity analysis).
    missing:
        ``"error"``, or ``"drop"`` for rows without offer or outcome.
    currency:
        Unit of the money in summaries.
    random_state:
        Seed of the critical value and of the permutation checks.

    Notes
    -----
    The band holds for all offers at once with about the stated confidence (Proposition 25.C);
    exactly so for binary outcomes. It fails for very uneven outcomes in small groups: lognormal
    outcomes with a coefficient of variation of 3 are covered in 83 % at 15 rows per offer.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> share = np.repeat([0.1, 0.3, 0.5], 80)
    >>> revenue = np.where(share < 0.3, 100, 400) * rng.lognormal(-0.08, 0.4, 240)
    >>> fit = fit_game(pd.DataFrame({"share": share, "revenue": revenue}), offer="share",
    ...                outcome="revenue", currency="EUR")
    >>> fit.monotone, fit.next_offer().offer
    (True, 0.3)
    >>> bool(fit.next_offer("safe").promise <= 0.7 * 400)
    True

    References
    ----------
    "What a log identifies", Lemma 25.B, Proposition 25.C, see docs/theory/25-offers.md.
    """
    check_open_fraction(level, "level")
    check_real(slack, "slack", low=0.0)
    check_real(floor, "floor")
    top = float("inf") if ceiling is None else check_real(ceiling, "ceiling", low=floor)
    meaning = Terms(terms, unit_cost, list_price, unit_value)
    others = {"agent": agent, "time": time, "within": within, "action": action}
    read = read_offer_log(
        log, meaning, offer=offer, outcome=outcome, others=others, floor=floor, missing=missing
    )
    aside: tuple[tuple[Any, int], ...] = ()
    if not meaning.ordered:
        read, aside = _set_aside(read)
    if (read.values > top).any():
        raise InvalidInputError(f"an {outcome} is above ceiling = {top:g}")
    seed = int(generator(random_state).integers(2**62))
    try:
        band = response_band(
            read.power, read.values, agent=read.agent, stratum=read.stratum, level=level,
            floor=floor, ceiling=top, slack=slack / meaning.pay(1.0).item(),
            shaped=meaning.ordered, random_state=seed,
        )  # fmt: skip
    except InvalidInputError as error:
        told = str(error).replace("no stratum", f"no stratum of {shown(within, 40)}")
        raise InvalidInputError(told) from None
    return OfferFit(read, band, level, currency, aside, seed, slack)


def _set_aside(log: OfferLog) -> tuple[OfferLog, tuple[tuple[Any, int], ...]]:
    """Leave out arms that cannot carry a limit: they have no neighbours to be merged with."""
    distinct = np.unique(log.values)
    binary = distinct.size <= 2 and distinct[0] == 0.0
    exact = binary and log.agent is None and log.stratum is None
    small = []
    for power in np.unique(log.power):
        mine = log.power == power
        own = log.values[mine]
        off = own.size - np.unique(own, return_counts=True)[1].max()
        alone = log.agent is not None and np.unique(log.agent[mine]).size < 2
        if own.size < LEAST_ROWS or alone or (off < LEAST_OFF and not exact):
            small.append(power)
    keep = ~np.isin(log.power, small)
    if np.unique(log.power[keep]).size < 2:
        raise InvalidInputError(
            f"fewer than two arms of {shown(log.offer, 40)} have {LEAST_ROWS} rows"
            + ("" if exact else f", {LEAST_OFF} of them off the commonest value")
            + ("" if log.agent is None else ", of two agents")
        )
    names = [(log.offers[log.power == p][0], int((log.power == p).sum())) for p in small]
    cut: dict[str, Any] = {
        name: None if getattr(log, name) is None else getattr(log, name)[keep]
        for name in ("offers", "values", "rows", "agent", "stratum", "time", "action")
    }
    codes = np.unique(log.power[keep], return_inverse=True)[1].astype(np.float64)
    return replace(log, power=codes, **cut), tuple(names)
