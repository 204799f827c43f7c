"""Files for a campaign that runs, read without its state: what they hold, as plain values.

None of this touches the campaign, so that a large file can be read by another process.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from counterplay.studio.errors import Refused
from counterplay.studio.kinds.audit import MOST_ROWS, checked_text
from counterplay.studio.kinds.campaign_adding import cells_of
from counterplay.studio.kinds.campaign_config import read_labels


def known_of(given: dict[str, Any], content: bytes) -> list[list[int]]:
    """Return item and label of every row; ``given`` has the names of the items and the labels."""
    return [list(pair) for pair in read_labels(_text(content), given["names"], given["classes"])]


def answers_of(given: dict[str, Any], content: bytes) -> list[list[Any]]:
    """Return question, label, labeler, party and place of every answer."""
    from counterplay.labeling.campaign_files import read_answers

    found = read_answers(_text(content))
    if len(found) > MOST_ROWS:
        raise Refused(f"The file has more than {MOST_ROWS:,} rows.", "file")
    return [[one.question, one.label, one.labeler, one.party, one.place] for one in found]


def items_of(given: dict[str, Any], content: bytes) -> list[list[Any]]:
    """Return the cells of new items, in the columns that are ``given``."""
    from counterplay.tables import read_table

    checked_text("items.csv", content, "table")
    with tempfile.TemporaryDirectory(prefix="counterplay-add-") as folder:
        path = Path(folder, "items.csv")
        path.write_bytes(content)
        return cells_of(given["columns"], read_table(path).frame)


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Refused("The file is not UTF-8 text.", "file") from None
