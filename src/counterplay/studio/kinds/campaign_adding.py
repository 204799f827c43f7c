"""Items that come to a campaign while it runs: a table in, one event, the same campaign at replay.

The event holds the cells of the new rows and the round at whose beginning they come in, so that
the campaign can be computed again from its record alone.
Source: docs/theory/24-campaign.md, "Comings, goings, retraction".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from counterplay.labeling.campaign_log import pool_mark
from counterplay.studio.errors import Refused
from counterplay.studio.kinds.campaign_config import item_names, plain_cell, pool
from counterplay.tables import Table

if TYPE_CHECKING:
    import pandas as pd

    from counterplay.labeling import Campaign
    from counterplay.studio.kinds.campaign_fold import CampaignFold

MOST_ADDED = 10_000


@dataclass(frozen=True)
class Addition:
    """Items that came later: whose, and the round at whose beginning they come in."""

    party: str
    rows: tuple[int, ...]
    begins: int
    joins: bool


def addition(state: CampaignFold, party: str, cells: list[list[Any]]) -> dict[str, Any]:
    """Return the body of ``label.add`` for new items, or say what is wrong with them.

    Parameters
    ----------
    state:
        The campaign now.
    party:
        Whose they are; a name that is not there yet joins with them.
    cells:
        Their rows, in the columns of the first table; see :func:`cells_of`.
    """
    from counterplay.studio.kinds.campaign import stopped

    if state.departed:
        raise Refused(stopped(state))
    page = state.config["page"]
    if page["images"] is not None:
        raise Refused("Items with pictures cannot be added here.", "file")
    _check_names(page, cells)
    first = state.config["items"]
    rows = list(range(first, first + len(cells)))
    table = added_table(enlarged(state.config, party, cells))
    mark = msgspec.to_builtins(pool_mark(table.part(np.array(rows))))
    return {"party": party, "rows": rows, "fingerprint": mark, "cells": cells,
            "joins": party not in state.state.names, "begins": begins(state)}  # fmt: skip


def cells_of(columns: list[str], frame: pd.DataFrame) -> list[list[Any]]:
    """Return the rows of a table in these columns, as JSON can hold them."""
    names = [str(column) for column in frame.columns]
    lacking = [column for column in columns if column not in names]
    if lacking:
        told = ", ".join(columns[:12])
        raise Refused(f"There is no column {lacking[0]!r:.60}; there are needed {told}.", "file")
    if not 0 < len(frame) <= MOST_ADDED:
        raise Refused(f"Between 1 and {MOST_ADDED:,} items can be added at a time.", "file")
    rows = frame.set_axis(names, axis=1)[columns].itertuples(index=False)
    return [[plain_cell(value) for value in row] for row in rows]


def check_addition(state: CampaignFold, body: dict[str, Any]) -> None:
    """Refuse what a campaign cannot take now."""
    inner = state.state
    if inner.finished or inner.joint is None:
        raise Refused("The campaign is finished; begin a new one with known labels.")
    if not str(body["party"]).strip() or len(str(body["party"])) > 200:
        raise Refused("The party must be 1 to 200 printable characters.", "party")
    if bool(body["joins"]) != (body["party"] not in inner.names):
        raise Refused("The campaign went on at the same time; look again.")
    if not body["joins"]:
        number = state.campaign._party(str(body["party"]))
        if number in inner.gone:
            raise Refused("That party has left already.", "party")
        shadow = inner.joint.shadows.get(number)
        if shadow is None or not shadow.live or not hasattr(shadow.run, "add"):
            raise Refused("That party has finished; begin a new campaign for new items.", "party")
    first, rows = state.config["items"], body["rows"]
    same = rows == list(range(first, first + len(body["cells"]))) and body["begins"] == begins(
        state
    )
    if not same or not rows:
        raise Refused("The campaign went on at the same time; look again.")


def begins(state: CampaignFold) -> int:
    """The round at whose beginning new items come in."""
    joint = state.state.joint
    return 0 if joint is None else int(joint.round) + 1


def take_addition(campaign: Campaign, added: Addition, config: dict[str, Any]) -> None:
    """Enlarge the pool of a campaign that is computed again; ``config`` holds the new rows."""
    inner = campaign._state
    table = added_table(config).part(slice(0, added.rows[-1] + 1))
    if added.joins:
        inner.names.append(added.party)
        inner.rows.append(np.empty(0, dtype=np.int64))
    inner.add(table, inner.names.index(added.party), np.array(added.rows, dtype=np.int64))


def enlarged(config: dict[str, Any], party: str, cells: list[list[Any]]) -> dict[str, Any]:
    """The configuration as the pages see it with new rows; the stored one stays as it is."""
    page, first = config["page"], config["items"]
    rows = [*config["parties"].get(party, ()), *range(first, first + len(cells))]
    return {
        **config,
        "items": first + len(cells),
        "parties": {**config["parties"], party: rows},
        "page": {**page, "rows": [*page["rows"], *cells]},
    }


def added_table(config: dict[str, Any]) -> Table:
    """The pool with all rows that were added."""
    return Table.of(pool(config["page"]), what="items")


def _check_names(page: dict[str, Any], cells: list[list[Any]]) -> None:
    if page["id"] is None:
        return
    known, place = set(item_names(page)), page["columns"].index(page["id"])
    for line, row in enumerate(cells):
        name = str(row[place])
        if name in known:
            raise Refused(f"the id {name!r:.40} is there twice (line {line + 2})", "file")
        known.add(name)
