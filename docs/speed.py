"""The page of speed and quality, made of the records that the benchmarks keep.

`make bench-peers` writes `benchmarks/results.jsonl`; `benchmarks/ledger.py` says what a record is
and refuses a damaged one, which fails the build of the site.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pages

sys.path.insert(0, str(pages.ROOT / "benchmarks"))

import ledger

RESULTS = pages.ROOT / "benchmarks" / "results.jsonl"
HOW = """`make bench-peers` makes a virtual environment of its own with the package and every other
package of `benchmarks/peers.txt` that installs, runs all benchmarks one after the other on one
core, and writes `benchmarks/results.jsonl`, from which this page is made. `make bench` prints the
same lines with what is installed already."""
HEADS = {"ours": "**ours**", "theirs": "**theirs**", "even": "even"}


PICTURE = "assets/growth.svg"


def curves(path: Path = RESULTS) -> list[ledger.Record]:
    """Return our own costs that were measured at three sizes or more, in seconds."""
    records = ledger.read(path) if path.exists() else []
    return [
        record for record in records
        if record["kind"] == "growth" and len(record["points"]) > 2 and record["unit"] == "s"
    ]  # fmt: skip


def growth_picture(path: Path = RESULTS) -> bytes | None:
    """Draw one panel per area: cost against size, and what growing in proportion would be."""
    found: dict[str, list[ledger.Record]] = {}
    for record in curves(path):
        found.setdefault(record["area"], []).append(record)
    if not found:
        return None
    from io import BytesIO
    from textwrap import fill

    from matplotlib.figure import Figure
    from matplotlib.ticker import NullFormatter

    from counterplay.core.figures import THEORY, figure_style

    lines = -(-len(found) // 2)
    with figure_style():
        figure = Figure(figsize=(8, 3.4 * lines), layout="constrained")
        axes = figure.subplots(lines, 2, squeeze=False).ravel()
        for ax in axes[len(found) :]:
            ax.set_axis_off()
        for ax, (area, records) in zip(axes, found.items()):
            for record in records:
                sizes, costs = zip(*record["points"])
                label = fill(f"{record['what']}, by {record['size']}", 52)
                ax.loglog(sizes, costs, "o-", label=label)
                ax.plot(sizes, [costs[0] * n / sizes[0] for n in sizes], **THEORY)
            ax.xaxis.set_minor_formatter(NullFormatter())
            ax.yaxis.set_minor_formatter(NullFormatter())
            ax.set_title(area)
            ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), fontsize=8)
            ax.set_ylabel("seconds")
        held = BytesIO()
        figure.savefig(held, format="svg", metadata={"Date": None})
    return held.getvalue()


def speed_page(path: Path = RESULTS) -> str:
    """Return the page, or a page that says how to make its numbers."""
    parts = ["# Speed and quality", HOW]
    if not path.exists():
        parts.append("This build has no results yet: run `make bench-peers`, then `make docs`.")
        return "\n\n".join(parts) + "\n"
    records = ledger.read(path)
    compared = [record for record in records if record["kind"] == "comparison"]
    count = {who: sum(record["wins"] == who for record in compared) for who in ledger.WINNERS}
    parts.append(
        "A ratio says how many times better we are: their cost over ours, or our gain over theirs "
        "where more is better. Below 1 the other side wins. The range goes from the smallest to "
        "the largest ratio over the turns; where it contains 1, or a single turn differs by less "
        "than a tenth, nobody wins. "
        f"Of {len(compared)} comparisons we win {count['ours']}, lose {count['theirs']}, and "
        f"{count['even']} are even. Some are against a lower bound of the work, such as a bare "
        "matrix product, and cannot be won."
    )
    parts.append(_machines(records))
    if curves(path):
        parts.append(
            f"[![Our own cost against size, one panel per area]({PICTURE})]({PICTURE})\n\n"
            "*Our own cost against size; the dashed lines grow in proportion to the size.*"
        )
    areas = list(dict.fromkeys(r["area"] for r in records if r["kind"] != "setup"))
    order = [*pages.SITUATIONS, *sorted(set(areas) - set(pages.SITUATIONS))]
    for area in (name for name in order if name in areas):
        parts += _area(area, [record for record in records if record["area"] == area])
    return "\n\n".join(parts) + "\n"


def _machines(records: list[ledger.Record]) -> str:
    """Say what the numbers were measured with, and which peers did not install."""
    facts = []
    for machine in (record["machine"] for record in records):
        packages = ", ".join(f"{name} {found}" for name, found in machine["packages"].items())
        said = f"Python {machine['python']}, {machine['system']}, {machine['cores']} cores"
        facts.append(f"{said}; {packages}")
    text = "Measured with " + "; and with ".join(dict.fromkeys(facts)) + "."
    for setup in (record for record in records if record["kind"] == "setup"):
        peers = "; ".join(f"{name} {state}" for name, state in setup["peers"].items())
        text += f" Peers: {pages.cell(peers)}."
        if setup["load"] is not None and setup["load"] > setup["machine"]["cores"] / 4:
            text += (
                f" **The machine was busy** with other programs ({setup['load']:.1f} of "
                f"{setup['machine']['cores']} cores on average): both sides of a ratio come from "
                "one run, but take a time alone, or a ratio near 1, with care."
            )
    return text


def _area(area: str, records: list[ledger.Record]) -> list[str]:
    kinds = {kind: [r for r in records if r["kind"] == kind] for kind in ledger.FIELDS}
    parts = [f"## {area}"]
    if kinds["comparison"]:
        lines = [
            "| what | ours | against | ratio | range | who wins | promised |",
            "|---|---|---|---|---|---|---|",
        ]
        table = "\n".join([*lines, *map(_compared, kinds["comparison"])])
        parts.append(f'<div class="compared" markdown>\n\n{table}\n\n</div>')
    if kinds["growth"]:
        lines = ["| our own cost | by | cost | grows like | promised |", "|---|---|---|---|---|"]
        parts.append("\n".join([*lines, *map(_grown, kinds["growth"])]))
    if kinds["skipped"]:
        left = "; ".join(f"{r['what']} ({r['why']})" for r in kinds["skipped"])
        parts.append(f"Left out: {pages.cell(left)}.")
    return parts


def _compared(record: ledger.Record) -> str:
    ours, theirs = (
        ledger.amount(record[side]["value"], record["unit"]) for side in ("ours", "theirs")
    )
    span = "one turn"
    if record["ratio"] is None:
        span = "-"
    elif record["low"] != record["high"]:
        span = f"{ledger.short(record['low'])} to {ledger.short(record['high'])}"
    promised = _promised(record, f"at least {ledger.short(record['bar'])}")
    peer = f"{pages.cell(ledger.named(record['theirs']))}: {theirs}"
    ratio = ledger.short(record["ratio"])
    cells = (_what(record), ours, peer, ratio, span, HEADS[record["wins"]], promised)
    return f"| {' | '.join(cells)} |"


def _grown(record: ledger.Record) -> str:
    points = [(n, cost) for n, cost in record["points"] if n > 0 and cost > 0]
    power = "-"
    if len(points) > 1:
        (n, cost), (more, later) = points[0], points[-1]
        power = f"n^{math.log(later / cost) / math.log(more / n):.1f}"
    costs = "<br>".join(
        f"{ledger.short(n)}: {ledger.amount(cost, record['unit'])}" for n, cost in record["points"]
    )
    bar = "" if record["bar"] is None else ledger.amount(record["bar"], record["unit"])
    cells = (_what(record), record["size"], costs, power, _promised(record, f"at most {bar}"))
    return f"| {' | '.join(cells)} |"


def _what(record: ledger.Record) -> str:
    note = f"<br><small>{pages.cell(record['note'])}</small>" if record["note"] else ""
    return pages.cell(record["what"]) + note


def _promised(record: ledger.Record, bar: str) -> str:
    if record["bar"] is None:
        return "-"
    return f"{bar}: {'met' if ledger.holds(record) else '**missed**'}"
