"""Plans of consortia against what people do now, as ratios.

1. Consortia in which every site keeps its promise on fresh rows: one common share, the cheapest
   plan of the estimates, plans from cell coverage; and the rows asked, against pooling all rows.
   Uses the tables heloc and adult where they are (COUNTERPLAY_DATA), else a bundled one.
2. Time from tables to plan against the fits alone.
"""

from __future__ import annotations

import argparse
import time

from counterplay.contribution import measure_sites, plan_consortium
from counterplay.errors import CounterplayError
from counterplay.studies.contribution.consortium import cell
from counterplay.studies.contribution.consortium_tables import consortium


def promises(data: str, seeds: int) -> None:
    records = [cell({"kind": "promise", "data": data, "replicate": r}, 0) for r in range(seeds)]

    def kept(name: str) -> int:
        return sum(record[f"{name}_at"] == record["sites"] for record in records)

    asked = sum(float(str(r["share_rows"])) / float(str(r["owned"])) for r in records) / seeds
    plug_in = max(kept("plug_in"), 1)
    print(
        f"1. {data}, {seeds} consortia, everybody served: share {kept('share')}, robust cheapest "
        f"{kept('cheapest')}, plug-in {kept('plug_in')}, 400 cells {kept('cells_400')}, 100 cells "
        f"{kept('cells_100')}; share over plug-in {kept('share') / plug_in:.2f}; rows asked by the "
        f"share over all rows {asked:.2f}"
    )


def seconds(data: str) -> None:
    world = consortium(data, 0)
    begin = time.process_time()
    points = measure_sites(world.sites, progress=False)
    fits = time.process_time() - begin
    begin = time.process_time()
    plan_consortium(world.sites, "within=0.015", progress=False)
    whole = time.process_time() - begin
    print(
        f"2. {data}: {points.fits} fits {fits:.1f} s, tables to plan (with 16 verifying fits) "
        f"{whole:.1f} s, ratio {whole / fits:.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=2)
    seeds = parser.parse_args().seeds
    for data in ("heloc", "adult"):
        try:
            consortium(data, 0)
        except CounterplayError:
            print(f"{data} is not here; a bundled table stands in")
            data = "cancer"
        promises(data, seeds)
        seconds(data)


if __name__ == "__main__":
    main()
