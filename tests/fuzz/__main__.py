"""``python -m tests.fuzz``: run the campaigns, print the table, write the failures."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections import Counter
from pathlib import Path

from . import CAMPAIGNS
from .campaign import Options, failures, table, write


def main() -> int:
    """Run what the command line asks for; 1 if anything failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("campaigns", nargs="*", help=f"default: all of {', '.join(CAMPAIGNS)}")
    parser.add_argument("--area", action="append", default=[], help="may be given several times")
    parser.add_argument("--only", default="", help="one public name, or NAME.method")
    parser.add_argument("--argument", default="")
    parser.add_argument("--mutation", default="", help='such as "nan" or "random-3"')
    parser.add_argument("--per-argument", type=int, default=14, help="mutations of each argument")
    parser.add_argument("--per-area", type=int, default=None, help="at most about so many calls")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("build/fuzz.json"))
    given = parser.parse_args()
    options = Options(
        tuple(given.area), given.only, given.argument, given.mutation,
        given.per_argument, given.per_area, given.seed, given.jobs,
    )  # fmt: skip
    outcomes = []
    for name in given.campaigns or CAMPAIGNS:
        module, function = CAMPAIGNS[name].split(":")
        campaign = importlib.import_module(f".{module}", __package__)
        outcomes += getattr(campaign, function)(options)
    output = given.output.resolve()
    write(outcomes, output)
    print(table(outcomes))
    found = failures(outcomes)
    kinds = Counter((f.verdict, f.error, f.where.split(":")[0]) for f in found)
    for (verdict, error, where), count in kinds.most_common(15):
        print(f"{count:6,} {verdict} {error} {where}")
    print(f"{len(found):,} failures, each with its reproducer: {output}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
