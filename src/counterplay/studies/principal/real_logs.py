"""Real logs of offers: groceries, train fares, electricity tariffs, cereals, a bank's channels.

Every loader returns the columns item, offer and outcome (and a stratum where one matters).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

PRODUCTS = 26
LEVELS = (3, 6)
LEAST_DAYS = 12
FARES = 8
PRICES = 12


@cache
def groceries() -> pd.DataFrame:
    """Daily price level and units of the products with three to six price levels."""
    import pandas as pd

    from counterplay import datasets

    raw: Any = datasets.fetch("ta_feng").frame
    raw = raw[(raw["AMOUNT"] > 0) & (raw["SALES_PRICE"] > 0)]
    raw = raw.assign(price=raw["SALES_PRICE"] / raw["AMOUNT"])
    keys = ["PRODUCT_ID", "TRANSACTION_DT"]
    daily = raw.groupby(keys).agg(price=("price", "median"), units=("AMOUNT", "sum")).reset_index()
    daily["price"] = daily["price"].round()
    count = daily.groupby(["PRODUCT_ID", "price"])["units"].transform("size")
    daily = daily[count >= LEAST_DAYS]
    levels = daily.groupby("PRODUCT_ID")["price"].nunique()
    days = daily.groupby("PRODUCT_ID").size()
    known = levels[(levels >= LEVELS[0]) & (levels <= LEVELS[1])].index
    busiest = days[known].sort_values(ascending=False, kind="stable").index[:PRODUCTS]
    part = daily[daily["PRODUCT_ID"].isin(busiest)]
    order = {product: i for i, product in enumerate(busiest)}
    return pd.DataFrame(
        {
            "item": part["PRODUCT_ID"].map(order).to_numpy(),
            "offer": part["price"].to_numpy(dtype=float),
            "outcome": part["units"].to_numpy(dtype=float),
        }
    )


@cache
def fares() -> pd.DataFrame:
    """Fare relative to the train at eight levels, and whether the new train was chosen."""
    import pandas as pd

    from counterplay import datasets

    raw: Any = datasets.fetch("swissmetro").frame
    raw = raw[(raw["CHOICE"] > 0) & (raw["GA"] == 0) & (raw["TRAIN_CO"] > 0)]
    ratio = (raw["SM_CO"] / raw["TRAIN_CO"]).to_numpy()
    level = pd.qcut(ratio, FARES, labels=False, duplicates="drop")
    middle = pd.Series(ratio).groupby(level).median().round(3)
    chosen = (raw["CHOICE"] == 2).to_numpy(dtype=float)
    return pd.DataFrame({"item": 0, "offer": middle[level].to_numpy(), "outcome": chosen})


def diagnoses() -> pd.DataFrame:
    """A stand-in: four levels of a measurement as prices, a benign finding as the sale."""
    import pandas as pd

    from counterplay import datasets

    data = datasets.load("breast_cancer")
    size = pd.qcut(np.asarray(data.X)[:, 0], 4, labels=False)
    return pd.DataFrame(
        {"item": 0, "offer": 1.0 + size, "outcome": np.asarray(data.y, dtype=float)}
    )


@cache
def tariffs() -> pd.DataFrame:
    """Price per kWh of a randomised tariff (7 or 9 cents), and whether it was chosen."""
    import pandas as pd

    from counterplay import datasets

    raw: Any = datasets.fetch("electricity").frame
    fixed = raw[raw["pf"] > 0]  # other tariffs depend on the hour or the season
    return pd.DataFrame(
        {
            "item": 0,
            "offer": fixed["pf"].to_numpy(dtype=float),
            "outcome": fixed["choice"].to_numpy(dtype=float),
        }
    )


@cache
def cereals() -> pd.DataFrame:
    """Price and market share of 24 cereals in 94 markets, both relative to the product's mean."""
    import pandas as pd

    from counterplay import datasets

    raw: Any = datasets.fetch("nevo").frame
    product = raw.groupby("product_ids")
    price = (raw["prices"] / product["prices"].transform("mean")).to_numpy()
    share = (raw["shares"] / product["shares"].transform("mean")).to_numpy()
    level = pd.qcut(price, PRICES, labels=False)
    middle = pd.Series(price).groupby(level).median().round(3)
    return pd.DataFrame({"item": 0, "offer": middle[level].to_numpy(), "outcome": share})


@cache
def channels() -> pd.DataFrame:
    """Phone contacts of a bank: channel as the arm, month as the stratum, deposits as outcome."""
    import pandas as pd

    from counterplay import datasets

    raw: Any = datasets.fetch("bank_marketing").frame
    known = raw[raw["contact"].astype(str).isin(["cellular", "telephone"])]
    return pd.DataFrame(
        {
            "item": 0,
            "offer": known["contact"].astype(str).to_numpy(),
            "stratum": known["month"].astype(str).to_numpy(),
            "outcome": (known["y"].astype(str) == "yes").to_numpy(dtype=float),
        }
    )
