"""The page of speed and quality, made of the records that the benchmarks keep.

`make bench-peers` writes `benchmarks/results.jsonl`; `benchmarks/records.py` says what a record
is and refuses a damaged one, which fails the build of the site.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pages

sys.path.insert(0, str(pages.ROOT / "benchmarks"))

import needed_tables
import records

RESULTS = pages.ROOT / "benchmarks" / "results.jsonl"
HOW = """`make bench-peers` makes a virtual environment of its own with the package and every other
package of `benchmarks/peers.txt` that installs, runs all benchmarks one after the other on one
core, and writes `benchmarks/results.jsonl`, from which this page is made. `make bench` prints the
same lines with what is installed already."""
HEADS = {
    "ours": "**ours**", "theirs": "**theirs**", "even": "even", "undecided": "not decided",
}  # fmt: skip
COMPARED = ("area", "what", "ours", "against", "kind", "ratio", "range", "who wins", "promised")
GROWN = ("area", "our own cost", "by", "cost", "grows like", "promised")
PROMISES = ("area", "what", "size", "measured", "promised")
MEANING = f"""A ratio says how many times better we are: their cost over ours, or our gain over
theirs where more is better. Below 1 the other side is better. {records.RULE} The range shows the
ratios of all turns, or the gain in the unit of the numbers.

A *peer* is another package that is made for the task. *Plain code* is what one writes with
general packages, such as NumPy, SciPy, scikit-learn or PyTorch; some of it is a lower bound of the
work, such as a bare matrix product, and cannot be beaten. An *own variant* is another way of this
library. Click on a heading to sort the table."""
PROMISED = """What we set ourselves as a limit, and what single costs are. These are promises about
ourselves and no comparison with anybody."""
DATA = """Most benchmarks make their data or take what comes with scikit-learn. These data sets are
needed as well: put them into a folder and name it in the environment variable `COUNTERPLAY_DATA`;
[Data sets](data.md) says which files are read. Without its data set a benchmark takes a bundled
one and names it, or is left out. `python benchmarks/needed_tables.py` prints what is missing."""
PICTURE = "assets/growth.svg"


def curves(path: Path = RESULTS) -> list[records.Record]:
    """Return our own costs that were measured at three sizes or more, in seconds."""
    found = records.read(path) if path.exists() else []
    return [record for record in found if record["kind"] == "growth" and _is_curve(record)]


def _is_curve(record: records.Record) -> bool:
    return len(record["points"]) > 2 and record["unit"] == "s"


def growth_picture(path: Path = RESULTS) -> bytes | None:
    """Draw one panel per area: cost against size, and what growing in proportion would be."""
    found: dict[str, list[records.Record]] = {}
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
        for ax, (area, lines_of) in zip(axes, found.items()):
            for record in lines_of:
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
    parts = ["---\nhide: [toc]\n---", "# Speed and quality", HOW]  # the table is wide
    if not path.exists():
        parts.append("This build has no results yet: run `make bench-peers`, then `make docs`.")
        return "\n\n".join(parts) + "\n"
    found = records.read(path)
    compared = [record for record in found if record["kind"] == "comparison"]
    beside = [record for record in compared if records.rival(record) != "target"]
    parts += [_headline(beside), _machines(found), "## Comparisons", MEANING, _table(beside)]
    parts += _growth(path)
    promised = [record for record in compared if records.rival(record) == "target"]
    points = [r for r in found if r["kind"] == "growth" and not _is_curve(r)]
    parts += ["## Promised", PROMISED, _lines(PROMISES, [*map(_target, promised + points)])]
    parts += ["## Data", DATA, _needed()]
    if left := [record for record in found if record["kind"] == "skipped"]:
        told = "".join(f"\n- {r['area']}: {pages.cell(r['what'])} ({r['why']})" for r in left)
        parts.append(f"## Left out\n{told}")
    return "\n\n".join(parts) + "\n"


def _headline(beside: list[records.Record]) -> str:
    """Say how often we win against peers, and leave everything else out of that number."""
    kinds = {kind: [r for r in beside if records.rival(r) == kind] for kind in records.RIVALS}
    count = {who: sum(r["wins"] == who for r in kinds["peer"]) for who in records.WINNERS}
    return (
        f"Of {len(kinds['peer'])} comparisons with other packages we win {count['ours']}, lose "
        f"{count['theirs']} and are even in {count['even']}; {count['undecided']} are not decided. "
        f"{len(kinds['plain code'])} comparisons with plain code and "
        f"{len(kinds['own variant'])} with other ways of this library stand in the same table and "
        "do not count here."
    )


def _machines(found: list[records.Record]) -> str:
    """Say what the numbers were measured with, and which peers did not install."""
    facts = []
    for machine in (record["machine"] for record in found):
        packages = ", ".join(f"{name} {found}" for name, found in machine["packages"].items())
        said = f"Python {machine['python']}, {machine['system']}, {machine['cores']} cores"
        facts.append(f"{said}; {packages}")
    text = "Measured with " + "; and with ".join(dict.fromkeys(facts)) + "."
    for setup in (record for record in found if record["kind"] == "setup"):
        peers = "; ".join(f"{name} {state}" for name, state in setup["peers"].items())
        text += f" Peers: {pages.cell(peers)}."
        if setup["load"] is not None and setup["load"] > setup["machine"]["cores"] / 4:
            text += (
                f" **The machine was busy** with other programs ({setup['load']:.1f} of "
                f"{setup['machine']['cores']} cores on average): both sides of a ratio come from "
                "one run, but take a time alone, or a ratio near 1, with care."
            )
    return text


def _growth(path: Path) -> list[str]:
    """Return the picture and the table of our own costs at several sizes."""
    found = curves(path)
    if not found:
        return []
    return [
        "## Growth",
        f"[![Our own cost against size, one panel per area]({PICTURE})]({PICTURE})\n\n"
        "*Our own cost against size; the dashed lines grow in proportion to the size.*",
        _lines(GROWN, [*map(_grown, found)]),
    ]


def _table(compared: list[records.Record]) -> str:
    areas = {record["area"] for record in compared}
    order = [*pages.SITUATIONS, *sorted(areas - set(pages.SITUATIONS))]
    rows = [_compared(r) for area in order for r in compared if r["area"] == area]
    return f'<div class="compared sortable" markdown>\n\n{_lines(COMPARED, rows)}\n\n</div>'


def _needed() -> str:
    rows = [
        f"| `{name}` | {', '.join(f'`bench_{script}.py`' for script in scripts)} | "
        f"{pages.cell(needed_tables.CATALOGUE[name].source)} |"
        for name, scripts in needed_tables.NEEDED.items()
    ]
    return _lines(("data set", "needed by", "source"), rows)


def _lines(head: tuple[str, ...], rows: list[str]) -> str:
    return "\n".join([f"| {' | '.join(head)} |", "|---" * len(head) + "|", *rows])


def _compared(record: records.Record) -> str:
    ours, theirs = (
        f'<data value="{record[side]["value"]:.6g}">'
        f"{records.amount(record[side]['value'], record['unit'])}</data>"
        for side in ("ours", "theirs")
    )
    bar = "" if record["bar"] is None else f"at least {records.short(record['bar'])}"
    peer = f"{pages.cell(records.named(record['theirs']))}: {theirs}"
    cells = (
        record["area"],
        _what(record),
        ours,
        peer,
        records.rival(record),
        records.short(record["ratio"]),
        records.ranged(record),
        HEADS[record["wins"]],
        _promised(record, bar),
    )
    return f"| {' | '.join(cells)} |"


def _grown(record: records.Record) -> str:
    points = [(n, cost) for n, cost in record["points"] if n > 0 and cost > 0]
    power = "-"
    if len(points) > 1:
        (n, cost), (more, later) = points[0], points[-1]
        power = f"n^{math.log(later / cost) / math.log(more / n):.1f}"
    costs = "<br>".join(
        f"{records.short(n)}: {records.amount(cost, record['unit'])}"
        for n, cost in record["points"]
    )
    bar = _bar(record)
    cells = (record["area"], _what(record), record["size"], costs, power, _promised(record, bar))
    return f"| {' | '.join(cells)} |"


def _target(record: records.Record) -> str:
    """Return the line of a number that was promised, or of a cost at one size or two."""
    measured, bar = records.amount(record["ours"]["value"], record["unit"]), _bar(record)
    if record["kind"] == "comparison":
        bar = records.amount(record["theirs"]["value"], record["unit"])
        bar = f"at {'least' if record['more'] else 'most'} {bar}"
        cells = (record["area"], _what(record), "-", measured, _promised(record, bar))
    else:
        size = f"{records.short(record['points'][-1][0])} {record['size']}"
        cells = (record["area"], _what(record), size, measured, _promised(record, bar))
    return f"| {' | '.join(cells)} |"


def _bar(record: records.Record) -> str:
    if record["bar"] is None:
        return ""
    return f"at most {records.amount(record['bar'], record['unit'])}"


def _what(record: records.Record) -> str:
    note = f"<br><small>{pages.cell(record['note'])}</small>" if record["note"] else ""
    return pages.cell(record["what"]) + note


def _promised(record: records.Record, bar: str) -> str:
    if record["bar"] is None:
        return "-"
    return f"{bar}: {'met' if records.holds(record) else '**missed**'}"
