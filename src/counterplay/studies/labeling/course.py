"""One campaign, question by question: who is asked what, and what alone would have cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.figures import PALETTE, panels
from counterplay.core.seeds import derive_seed, generator
from counterplay.labeling import Campaign
from counterplay.labeling.campaign_study import attached, solo_run
from counterplay.studies.study import Params, Record, Scale, Study, Verdict
from counterplay.studies.verdicts import at_least, equals

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PARTIES, EACH, SHARED = 3, 189, 60  # each party also owns some of its neighbour's items


def _grid(scale: Scale) -> list[Params]:
    return [{"replicate": r} for r in range(2 if scale == "quick" else 50)]


def _cell(params: Params, seed: int) -> Record:
    """A campaign with overlapping pools; after every answer the account is checked."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    from counterplay import datasets

    replicate = int(params["replicate"] or 0)
    X, y = datasets.load("breast_cancer", return_X_y=True)
    X = StandardScaler().fit_transform(X)
    rows = generator(derive_seed("split", replicate)).permutation(len(X))[: PARTIES * EACH]
    X, y = X[rows], y[rows]
    owners = {f"party {i + 1}": np.arange(i * EACH, (i + 1) * EACH + SHARED) % len(X)
              for i in range(PARTIES)}  # fmt: skip
    campaign = Campaign(X, owners=owners, classes=[0, 1], scope="union", random_state=replicate,
                        learner=LogisticRegression(max_iter=200))  # fmt: skip
    oracle = attached(y, 2, 0.0, replicate)
    alone = [solo_run(campaign, i, oracle, y)[0] for i in range(PARTIES)]
    marks: dict[str, list[str]] = {name: [] for name in owners}
    used = dict.fromkeys(owners, 0)
    broken, least = 0, [0] * PARTIES
    while questions := campaign.ask(10):
        for question in questions:
            campaign.tell(question, int(y[question.item]))
            marks[question.party].append(question.kind[0])
            for i, account in enumerate(campaign.work().parties):
                fits = least[i] <= account.alone_at_least <= alone[i]
                broken += not (fits and account.asked <= account.alone_at_least)
                least[i] = account.alone_at_least
                marks[account.party] += ["f"] * (account.free - used[account.party])
                used[account.party] = account.free
    asked = [account.asked for account in campaign.work().parties]
    record: dict[str, Any] = {"broken": broken, "free": sum(used.values())}
    record |= {"alone": ",".join(map(str, alone)), "asked": ",".join(map(str, asked))}
    record["course"] = ",".join("".join(marks[name]) for name in owners)
    record["events"] = sum(asked)
    return record


def _verdicts(frame: pd.DataFrame) -> list[Verdict]:
    events = int(frame["events"].sum())
    return [
        equals("24.04", "Accounts that do not hold after an answer: asked <= at least alone <= "
               "alone, never falling.", int(frame["broken"].sum()), 0, what=f"of {events} answers"),
        at_least("24.28", "Pools overlap: answers that others had given already.",
                 int(frame["free"].sum()), 1, what="free answers"),
    ]  # fmt: skip


def _strip(frame: pd.DataFrame) -> Figure:
    """One campaign of three parties with overlapping pools: every mark is a question that the
    party answered, to learn or as a check; above them answers of others that it could use. The
    hollow circle is where its own protocol would have ended alone.
    """
    row = frame.iloc[int(np.argmax(frame["free"].to_numpy()))]
    figure, (ax,) = panels(1, width=7.0, height=2.9)
    courses = str(row["course"]).split(",")
    alone = [int(v) for v in str(row["alone"]).split(",")]
    for place, (course, end) in enumerate(zip(courses, alone)):
        _row(ax, -place, course, end)
    ax.set_yticks([-i for i in range(len(courses))],
                  [f"party {i + 1}" for i in range(len(courses))])  # fmt: skip
    ax.set(xlabel="questions answered by the party", xlim=(0, None),
           ylim=(-len(courses) + 0.5, 0.6))  # fmt: skip
    handles, labels = ax.get_legend_handles_labels()
    known = dict(zip(labels, handles))
    figure.legend(known.values(), known.keys(), loc="outside upper center", ncols=4)
    return figure


def _row(ax: Axes, y: float, course: str, end: int) -> None:
    """The marks of one party; a free answer stands at the number of its own so far."""
    own = np.cumsum([mark != "f" for mark in course])
    kinds = (("l", "learning", "|", 0, 0.0, 60), ("a", "check", "|", 1, 0.0, 160),
             ("f", "free answer", ".", 2, 0.3, 14))  # fmt: skip
    for mark, label, marker, colour, lift, size in kinds:
        there = own[[m == mark for m in course]]
        ax.scatter(there, np.full(len(there), y + lift), marker=marker, s=size, lw=1.2,
                   color=PALETTE[colour], label=label)  # fmt: skip
    ax.scatter([end], [y], s=60, facecolors="none", edgecolors="0.2", label="end alone")


STUDY = Study(
    name="course",
    title="One campaign, question by question",
    question=(
        "Three parties with overlapping pools label together. After every answer, is what each was "
        "asked at most what it would surely have been asked alone, and that at most what its own "
        "protocol really asks? Where does each stop, and where would it have stopped alone?"
    ),
    claims=("24.04", "24.28"),
    grid=_grid,
    cell=_cell,
    verdicts=_verdicts,
    figures={"strip": _strip},
)
