"""Plans of consortia against what people do now, as ratios.

1. Consortia in which every site keeps its promise on fresh rows: one common share, the cheapest
   plan of the estimates, plans from cell coverage; and the rows asked, against pooling all rows.
   Uses the tables heloc and adult where they are (COUNTERPLAY_DATA), else a bundled one.
2. Time from tables to plan against the fits alone.
"""

from __future__ import annotations

import argparse

from ledger import compare, skipped, timed

from counterplay.contribution import measure_sites, plan_consortium
from counterplay.errors import CounterplayError
from counterplay.studies.contribution.consortium import cell
from counterplay.studies.contribution.consortium_tables import consortium


def promises(data: str, seeds: int) -> None:
    records = [cell({"kind": "promise", "data": data, "replicate": r}, 0) for r in range(seeds)]

    def kept(name: str) -> float:
        return float(sum(record[f"{name}_at"] == record["sites"] for record in records))

    what = f"consortia of {seeds} in which every site is served, one common share, {data}"
    others = {
        "robust cheapest plan": "cheapest",
        "plug-in plan": "plug_in",
        "coverage of 400 cells": "cells_400",
        "coverage of 100 cells": "cells_100",
    }
    for name, key in others.items():
        compare("contribution", what, kept("share"), kept(key), against=name, more=True,
                package="counterplay", unit=f"of {seeds} consortia")  # fmt: skip
    asked = [float(str(r["share_rows"])) / float(str(r["owned"])) for r in records]
    compare("contribution", f"rows asked by one common share, {data}", asked, [1.0] * seeds,
            against="pooling all rows", unit="of all rows", bar=1 / 0.75)  # fmt: skip


def seconds(data: str) -> None:
    world = consortium(data, 0)
    fits = timed(lambda: measure_sites(world.sites, progress=False), cpu=True)
    whole = timed(lambda: plan_consortium(world.sites, "within=0.015", progress=False), cpu=True)
    compare("contribution", f"from tables to plan, {data}", whole, fits,
            against="the fits alone", package="scikit-learn", bar=1 / 3,
            note=f"{fits.result.fits} fits, ours with 16 verifying fits")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    seeds = parser.parse_args().seeds
    for data in ("heloc", "adult"):
        try:
            consortium(data, 0)
        except CounterplayError:
            skipped("contribution", f"promises on {data}", "not here, a bundled table stands in")
            data = "cancer"
        promises(data, seeds)
        seconds(data)


if __name__ == "__main__":
    main()
