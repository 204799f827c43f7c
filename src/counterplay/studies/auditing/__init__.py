"""Studies of the audit: its numbers on real tables, and how well it knows rows that were seen."""

from counterplay.studies.auditing.pages import PAGES
from counterplay.studies.auditing.seen import SEEN
from counterplay.studies.study import Area

AREA = Area(
    name="auditing",
    title="A model and a table in, one page of findings out",
    story=(
        "Somebody has a fitted model and a table with outcomes and must sign. The audit says how "
        "good the model is on rows it has not seen, in money and beside the plain rules; what "
        "happens when people game it; what somebody who plants rows can do; and what to do next, "
        "each with its gain, its interval and what the number rests on. It credits the cheapest "
        "gain first: often the cut, not the defence."
    ),
    harm=(
        "A model that is right on last year's rows goes live. Its cut-off treats a bad loan like a "
        "good one turned down, applicants learn what counts, and a few planted rows flip a "
        "decision. The accuracy on held-out rows shows none of this."
    ),
    remedy=(
        "One command on the model and the table gives one page: what the model costs compared with "
        "simple rules, what gaming and planted rows do to it, and what to do next, with intervals."
    ),
    start="counterplay audit model.skops loans.csv --config audit.toml",
    picture="pages/money",
    studies=(PAGES, SEEN),
)

__all__ = ["AREA"]
