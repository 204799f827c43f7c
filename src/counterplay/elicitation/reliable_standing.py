"""The recommendation on the answers so far, with its three numbers and what is to be said.

Source: docs/theory/26-people.md, "Three stops".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplay.elicitation.exact_path import if_all_right
from counterplay.elicitation.reliable_result import ErrorsTested, ReliableResult
from counterplay.elicitation.reliable_state import MOST_DIMENSIONS, ReliableState

if TYPE_CHECKING:
    import pandas as pd


def standing(state: ReliableState, *, finished: bool) -> ReliableResult:
    """Return the recommended item with its three numbers, each under its condition."""
    items, settings = state.items, state.settings
    view = state.view
    exact = None
    item = view.item
    if state.exact is not None:  # the exact path recommends its own item
        found = state.exact.result()
        item, exact = found.index, found.regret_certificate
    else:
        exact = if_all_right(items, state.log, item)
    refuted = view.bound is None
    number = view.bound or 0
    rates = getattr(settings.errors, "rates", (None,))
    tested = ErrorsTested.of(state.repeats.pairs, rates[number], settings.alpha, refuted)
    certificate = None if tested.refuted or item != view.item else state.certificate()
    return ReliableResult(
        row=int(items.rows[item]),
        label=items.labels[item],
        regret_certificate=certificate,
        confidence=settings.confidence,
        condition=settings.errors.told(number),
        credible_regret=state.credible_regret(item),
        if_every_answer_is_right=exact,
        errors_tested=tested,
        expected_regret=state.expected_regret(item),
        weights=_posterior_weights(state, items.names),
        answers=tuple(state.log),
        cannot_say=sum(e.said != "choice" and e.kind != "volunteered" for e in state.log),
        finished=finished,
        notes=_notes(state, tested, certificate),
        item=item,
        described=items.describe(item),
        regret_kind=(
            "of the way from the best to the worst" if items.ranged
            else "below the best possible"
        ),
    )  # fmt: skip


def _posterior_weights(state: ReliableState, names: tuple[str, ...]) -> pd.DataFrame:
    """Return posterior mean and 5 % and 95 % quantile of every weight."""
    import pandas as pd

    shares, weights = state.forecast.shares, state.forecast.weights
    bands = []
    for column in weights.T:
        order = np.argsort(column)
        reached = np.cumsum(shares[order])
        at = np.searchsorted(reached, [0.05, 0.95]).clip(max=len(order) - 1)
        bands.append(column[order[at]])
    low, high = np.array(bands).T
    columns = {"mean": shares @ weights, "low": low, "high": high}
    return pd.DataFrame(columns, index=list(names)).rename_axis("attribute")


def _notes(
    state: ReliableState, tested: ErrorsTested, certificate: float | None
) -> tuple[str, ...]:
    settings, notes = state.settings, []
    rates = getattr(settings.errors, "rates", ())
    if state.view.bound is None:
        told = f"at most {100 * rates[-1]:.3g} % errors" if rates else "the answer model"
        further = (*tuple(rates), min(0.45, 2 * rates[-1])) if rates else (0.1, 0.2)
        notes.append(
            f"no preference explains these answers with {told}; the certificate is void. Ask "
            f"again with errors=AtMost({further}) from the start"
        )
    elif tested.refuted:
        notes.append(
            f"{tested.disagreements} of {tested.n} repeated questions were answered differently: "
            "more answers are wrong than the bound allows; the certificate is void"
        )
    elif state.view.bound > 0:
        notes.append(
            f"at most {100 * rates[state.view.bound - 1]:.3g} % errors was refuted; the next bound "
            "is in use"
        )
    if settings.stop == "credible":
        notes.append(
            "stopped at the posterior probability, which holds if prior and answer model are "
            "right: of 40 simulated stops a wrong prior made 1 false, an opposite one 8, and 13 a "
            "wrong one without its flat fifth"
        )
    if not state.certifiable:
        notes.append(f"certificates go up to {MOST_DIMENSIONS} dimensions")
    elif certificate is not None and certificate > settings.target and state.finished():
        notes.append(f"the target of {100 * settings.target:.3g} % was not reached")
    if state.silent():
        notes.append(
            "eight questions in a row could not be answered; the options may be too alike: raise "
            "target_regret"
        )
    return tuple(notes)
