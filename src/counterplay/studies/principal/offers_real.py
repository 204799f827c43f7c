"""Offers on real rows: groceries, train fares, electricity tariffs, a bank's channels.

Logs are resampled from real rows; the truth is the isotonic mean of all rows at the price levels
(it lives at the levels only). Quick: a table bundled with scikit-learn stands in.
Source: docs/theory/25-offers.md, "Measured".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import PALETTE, panels
from counterplay.principal import fit_game
from counterplay.studies.principal.real_logs import (
    PRODUCTS,
    cereals,
    channels,
    diagnoses,
    fares,
    groceries,
    tariffs,
)
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_least, at_most

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

WHOLE = ("groceries", "fares", "electricity", "cereals", "channels", "channels within months")
CHUNKS = 40


def grid(scale: Scale) -> Sequence[Params]:
    """Data x rows of a log x chunks of resamples."""
    if scale == "quick":
        return [{"data": "diagnoses", "item": 0, "rows": 150, "chunk": 0}]
    cells: list[dict[str, Any]] = []
    for data in ("groceries", "groceries capped"):
        cells += [{"data": data, "item": i, "rows": 100, "chunk": 0} for i in range(PRODUCTS)]
    for rows in (150, 400, 1500):
        cells += [{"data": "fares", "item": 0, "rows": rows, "chunk": c} for c in range(CHUNKS)]
    for data in WHOLE:
        for item in range(PRODUCTS if data == "groceries" else 1):
            cells.append({"data": f"whole {data}", "item": item, "rows": 0, "chunk": 0})
    return cells


def real_rows(data: str, item: int) -> pd.DataFrame:
    """All rows of one item."""
    sources: dict[str, Any] = {
        "groceries": groceries,
        "fares": fares,
        "electricity": tariffs,
        "cereals": cereals,
        "channels": channels,
        "diagnoses": diagnoses,
    }
    frame = sources[data.split()[0]]()
    rows = frame[frame["item"] == item]
    if data.endswith("capped"):
        rows = rows.assign(outcome=rows["outcome"].clip(upper=rows["outcome"].quantile(0.98)))
    return rows


def truth(rows: pd.DataFrame) -> tuple[Any, Any]:
    """Levels of the price and the isotonic mean outcome at each; it never rises with the price."""
    from sklearn.isotonic import isotonic_regression

    found = rows.groupby("offer")["outcome"].agg(["mean", "size"])
    f = isotonic_regression(found["mean"], sample_weight=found["size"], increasing=False)
    return found.index.to_numpy(dtype=float), f


def cell(params: Params, seed: int) -> Record:
    """Coverage, regrets and kept promises over 25 resampled logs; or what the whole log says."""
    data, item, n = str(params["data"]), int(str(params["item"])), int(str(params["rows"]))
    if data.startswith("whole "):
        return whole_log(data.removeprefix("whole "), item)
    rows = real_rows(data, item)
    levels, f = truth(rows)
    value = dict(zip(levels.tolist(), (levels * f).tolist()))
    best, found = max(value.values()), []
    for i in range(25 if data != "diagnoses" else 5):
        rng = np.random.default_rng([seed, i])
        # draws keep the mean at each level at the truth: residuals of the level, moved to it
        own = rows.iloc[rng.integers(0, len(rows), n)]
        outcome = _moved(own, rows, levels, f, rng)
        fit = fit_game({"offer": own["offer"].to_numpy(), "outcome": outcome}, terms="price")
        tried = np.unique(own["offer"].to_numpy(dtype=float))
        band = fit.response(tried.tolist())
        at = np.array([f[int(np.searchsorted(levels, x))] for x in tried])
        means = [x * outcome[own["offer"].to_numpy() == x].mean() for x in tried]
        safe = fit.next_offer("safe")
        found.append(
            {
                "covered": float(
                    ((band["lower"] <= at + 1e-9) & (at <= band["upper"] + 1e-9)).all()
                ),
                "ab": 1 - value[float(tried[int(np.argmax(means))])] / best,
                "winner": 1 - value[float(fit.next_offer().offer)] / best,
                "safe": 1 - value[float(safe.offer)] / best,
                "kept": float(safe.promise <= value[float(safe.offer)] + 1e-9),
            }
        )
    return {name: float(np.mean([row[name] for row in found])) for name in found[0]}


def whole_log(data: str, item: int) -> Record:
    """Rows, the response to the first and the last offer with limits, and the test of its shape.

    Offers run from the lowest price to the highest, channels by name.
    """
    rows = real_rows(data, item)
    fit = fit_game(
        rows,
        terms="arms" if data.startswith("channels") else "price",
        within="stratum" if data.endswith("within months") else None,
    )
    response = fit.response().sort_values("offer")
    first, last = response.iloc[0], response.iloc[-1]
    return {
        "size": len(rows),
        "offers": len(response),
        "first": float(first["estimate"]),
        "first_low": float(first["lower"]),
        "first_high": float(first["upper"]),
        "last": float(last["estimate"]),
        "last_low": float(last["lower"]),
        "last_high": float(last["upper"]),
        "rejected": float(not fit.monotone),
    }


def _moved(own: Any, rows: Any, levels: Any, f: Any, rng: Any) -> Any:
    """Outcomes whose mean at each level is the truth: rescaled, or drawn anew if binary."""
    at = np.searchsorted(levels, own["offer"].to_numpy(dtype=float))
    if set(np.unique(rows["outcome"])) <= {0.0, 1.0}:
        return (rng.random(at.size) < f[at]).astype(float)
    mean = rows.groupby("offer")["outcome"].mean().to_numpy()
    return own["outcome"].to_numpy() * (f / mean)[at]


def verdicts(frame: pd.DataFrame) -> Sequence[Verdict]:
    """Coverage and promises on real rows. Which rule loses least is a table, not a promise."""
    quick = len(frame) < 5
    drawn = frame[frame["rows"] > 0]
    mean = drawn.groupby(["data", "rows"]).mean(numeric_only=True)
    found = [
        at_least("25.05", "Bands cover real responses.", mean["covered"].min(), 0.92 - 0.3 * quick,
                 what="lowest coverage"),
        at_least("25.10", "Promises are kept on real rows.", mean["kept"].min(),
                 0.95 - 0.3 * quick),
    ]  # fmt: skip
    whole = frame[frame["data"].isin(["whole electricity", "whole cereals"])]
    if len(whole):
        found.append(
            at_most("25.08", "Randomised tariffs and cereal prices give no false alarm.",
                    whole["rejected"].max(), 0.0, what="rejections")
        )  # fmt: skip
    return found


def regret_figure(frame: pd.DataFrame) -> Figure:
    """Regret of the price chosen from a log of real rows, as a share of the best value: the A/B
    winner, the isotonic winner and the safe offer."""
    figure, (axis,) = panels(1, height=3.4)
    drawn = frame[frame["rows"] > 0]
    mean = drawn.groupby(["data", "rows"], sort=False).mean(numeric_only=True)
    at = np.arange(len(mean))
    for i, (column, label) in enumerate(
        {"ab": "A/B winner", "winner": "isotonic", "safe": "safe"}.items()
    ):
        axis.bar(at + (i - 1) * 0.27, mean[column], 0.27, color=PALETTE[i], label=label)
    axis.set_xticks(at, [f"{data}\n{rows} rows" for data, rows in mean.index], fontsize=8)
    axis.set_ylabel("regret, share of the best value")
    axis.legend()
    return figure


OFFERS_REAL = Study(
    name="offers-real",
    title="The next price from real rows",
    question=(
        "On groceries and train fares, how often do bands and promises hold and which rule loses "
        "least? Logs are resampled from real rows whose mean at each price is the truth. What do "
        "the whole logs say, also of electricity tariffs, cereals and a bank's channels?"
    ),
    claims=("25.05", "25.08", "25.10"),
    grid=grid,
    cell=cell,
    verdicts=verdicts,
    figures={"regret": regret_figure},
    data=("ta_feng", "swissmetro", "electricity", "nevo", "bank_marketing"),
    full_needs="the Ta Feng, Swissmetro, electricity, Nevo and bank marketing data",
)
