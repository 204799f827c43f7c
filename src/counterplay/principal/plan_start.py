"""Start a plan from a fitted log: its arms, what it may try, and its settings.

Source: docs/theory/25-offers.md, "The planner".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.records import pack_generator
from counterplay.core.seeds import RandomState, generator
from counterplay.core.validation import check_fraction, check_int, check_real
from counterplay.errors import InvalidInputError
from counterplay.principal.offer_planner import OfferPlanner
from counterplay.principal.saved_plan import MOST_ROUNDS, PlanSettings, SavedArm, SavedTerms

if TYPE_CHECKING:
    from counterplay.principal.offer_fit import OfferFit


def planner_of(
    fit: OfferFit,
    rounds: int,
    step: float | None,
    explore: bool | None,
    at_least: float | None,
    highest: float | None,
    random_state: RandomState,
) -> OfferPlanner:
    """Make the plan of a fit; the arguments are those of :meth:`OfferFit.planner`."""
    terms, (offers, powers) = fit.terms, fit.log.distinct
    shaped = terms.ordered and fit.monotone
    if explore is None:
        checks = fit.checks().set_index("check")["verdict"]
        explore = not any(checks.get(name) == "found" for name in ("drift", "carry-over"))
    if highest is not None and terms.kind != "price":
        raise InvalidInputError("highest is a price: it needs terms='price'")
    if at_least is not None:
        check_fraction(at_least, "at_least")
    lowest = 0.0 if shaped and terms.kind != "price" else None
    if highest is not None:
        top = check_real(highest, "highest", low=float(np.max(offers)))
        lowest = -top if shaped else None
    arms = []
    for at in fit.candidates:
        own = fit.log.values[fit.unit_rows == fit.unit(powers[at])]
        lower = float(fit.band.lower(powers[at])[0])
        arms.append(
            SavedArm(
                offer=_offer(offers[at]),
                rows=int(own.size),
                mean=float(np.sort(own).mean()),
                square=float(((np.sort(own) - np.sort(own).mean()) ** 2).sum()),
                lower=max(lower, fit.band.floor),
            )
        )
    if len(arms) < 2:
        raise InvalidInputError("a plan needs two tried offers with a positive margin")
    settings = PlanSettings(
        terms=SavedTerms(
            kind=terms.kind,
            unit_cost=float(terms.unit_cost),
            list_price=None if terms.list_price is None else float(terms.list_price),
            unit_value=None if terms.unit_value is None else float(terms.unit_value),
        ),
        rounds=check_int(rounds, "rounds", low=1, high=MOST_ROUNDS),
        step=_step(fit) if step is None else check_real(step, "step", low=0.0, open_low=True),
        explore=bool(explore) and shaped,
        shaped=shaped,
        at_least=None if at_least is None else float(at_least),
        lowest_power=lowest if lowest is None or lowest < powers[0] else None,
        floor=float(fit.band.floor),
        promise=fit.next_offer("safe").promise,
        offer=fit.log.offer[:1000],
        outcome=fit.log.outcome[:1000],
        currency=fit.currency[:1000],
        generator=pack_generator(generator(random_state)),
        arms=tuple(arms),
    )
    return OfferPlanner(settings)


def _step(fit: OfferFit) -> float:
    """A cent of a share, or about a hundredth of the largest offer as one digit."""
    if not fit.terms.ordered:
        return 0.0
    if fit.terms.is_share:
        return 0.01
    size = float(np.abs(fit.log.distinct[0].astype(float)).max()) / 100.0
    return float(f"{size:.0e}") if size > 0 else 0.01


def _offer(value: Any) -> Any:
    plain = value.item() if isinstance(value, np.generic) else value
    return (
        plain
        if isinstance(plain, str | int | float) and not isinstance(plain, bool)
        else str(plain)
    )
