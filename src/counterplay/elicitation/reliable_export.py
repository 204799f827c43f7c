"""A questionnaire with people who slip as a chain of events that ``counterplay verify`` recomputes.

Every question carries the options in the order shown, with their values, and the forecast that was
fixed before the answer; so the bets, and with them the certificate, follow from the file alone.
Source: docs/theory/26-people.md, "State".
"""

from __future__ import annotations

import msgspec
import numpy as np

from counterplay.core import export_bodies as lines
from counterplay.core.exports import EventChain, write_export
from counterplay.core.validation import FloatArray
from counterplay.elicitation.choice_log import ChoiceAnswer
from counterplay.elicitation.forecast import Forecast
from counterplay.elicitation.item_table import ItemTable
from counterplay.elicitation.reliable_result import ReliableResult
from counterplay.elicitation.slips import AtMost
from counterplay.errors import InvalidInputError


def reliable_chain(
    stream: str, answers: tuple[ChoiceAnswer, ...], particles: FloatArray, *, stopped: bool
) -> EventChain:
    """Return questions with their forecasts, and answers, as events."""
    chain, forecast = EventChain(stream), Forecast(particles)
    numbers: list[int | None] = []  # of the questions, counted without volunteered answers
    for entry in answers:
        chances = _chances(forecast.predict(entry.values))
        if entry.kind == "volunteered":
            offered = lines.Volunteered(
                shown=_shown(entry), forecast=chances, order=entry.order[:1]
            )
            chain.add("elicit.volunteered", msgspec.to_builtins(offered), actor=stream)
            numbers.append(None)
        else:
            number = sum(known is not None for known in numbers)
            asked = lines.Asked(
                number=number,
                shown=_shown(entry),
                forecast=chances,
                then=_then(forecast, entry) if len(entry.order) > 1 else (),
                repeat_of=None if entry.repeats is None else numbers[entry.repeats],
            )
            numbers.append(number)
            seq = chain.add("elicit.asked", msgspec.to_builtins(asked), actor="counterplay").seq
            if entry.said == "choice":
                body = msgspec.to_builtins(lines.Chosen(asked=seq, order=entry.order))
                chain.add("elicit.answered", body, actor=stream)
            else:
                body = msgspec.to_builtins(lines.Unsaid(asked=seq, said=entry.said))
                chain.add("elicit.cannot_say", body, actor=stream)
        for options, chosen in entry.choices():
            forecast.update(options, chosen)
    if stopped:
        chain.add("elicit.stopped", {}, actor=stream)
    return chain


def export_reliable(
    study: str,
    items: ItemTable,
    errors: object,
    target: float,
    chain: EventChain,
    result: ReliableResult,
    bound: int,
) -> str:
    """Return the text of an export: items, promise, events and the result."""
    if not isinstance(errors, AtMost):
        raise InvalidInputError(
            "an export needs a bound on wrong answers, errors=AtMost(...): what rests on the "
            "answer model cannot be recomputed from the answers alone"
        )
    stated = stated_result(result, errors.rates[bound])
    chain.add("elicit.result", msgspec.to_builtins(stated), actor="counterplay")
    config = lines.ReliableConfig(
        promise="reliable",
        items=tuple(map(tuple, items.values.tolist())),
        unknown=tuple(map(int, items.unknown)),
        target=target,
        confidence=result.confidence,
        rates=tuple(map(float, errors.rates)),
        jnd=errors.jnd,
        running=errors.running,
        columns=columns_of(items),
    )
    return write_export(study, "elicitation", msgspec.to_builtins(config), [chain])


def stated_result(result: ReliableResult, rate: float) -> lines.ReliableStated:
    """Return what a result states, ``rate`` being the bound on wrong answers in use."""
    tested = result.errors_tested
    return lines.ReliableStated(
        item=result.item,
        regret_certificate=result.regret_certificate,
        rate=rate,
        if_every_answer_is_right=result.if_every_answer_is_right,
        credible_regret=min(1.0, result.credible_regret),
        questions=result.n_queries,
        cannot_say=result.cannot_say,
        repeats=tested.n,
        disagreements=tested.disagreements,
        refuted=tested.refuted,
    )


def columns_of(items: ItemTable) -> lines.Columns | None:
    """Which columns and rows of the caller's table the items are."""
    catalogue = items.catalogue
    if catalogue is None:
        return None
    return lines.Columns(
        benefits=tuple(map(str, catalogue.benefits)),
        costs=tuple(map(str, catalogue.costs)),
        either=tuple(map(str, catalogue.either)),
        curves={str(column): n for column, n in catalogue.curves.items()},
        scale=catalogue.scale,
        rows=tuple(map(int, items.rows)),
    )


def _shown(entry: ChoiceAnswer) -> tuple[lines.Shown, ...]:
    ids = entry.rows or (None,) * len(entry.values)
    return tuple(
        lines.Shown(id=row, values=tuple(values)) for row, values in zip(ids, entry.values.tolist())
    )


def _then(forecast: Forecast, entry: ChoiceAnswer) -> tuple[tuple[float, ...], ...]:
    """Forecast of the others for each option that may be named first, fixed before the answer."""
    rows = []
    for first in range(len(entry.values)):
        after = forecast.copy()
        after.learn(entry.values, first)
        rest = np.delete(entry.values, first, axis=0)
        rows.append(_chances(after.predict(rest)))
    return tuple(rows)


def _chances(forecast: FloatArray) -> tuple[float, ...]:
    return tuple(forecast.tolist())
