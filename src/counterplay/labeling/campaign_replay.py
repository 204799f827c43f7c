"""Read a campaign back from its log: the same events, in the same order, checked one by one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from counterplay.core.files import read_limited
from counterplay.core.records import refusal, require_state
from counterplay.errors import InvalidInputError, InvalidStateError, ProtocolError
from counterplay.labeling import campaign_log as lines
from counterplay.labeling.campaign_log import WHAT
from counterplay.labeling.certificate import SKIPPED
from counterplay.tables import Table

if TYPE_CHECKING:
    from counterplay.labeling.campaign import Campaign


def replayed(
    kind: type[Campaign],
    log: str | bytes | os.PathLike[str],
    items: Any,
    learner: Any,
    solo: Any,
) -> Campaign:
    """Rebuild a campaign; a file goes on being written to."""
    path = None if isinstance(log, str | bytes) else Path(log)
    text = read_limited(path, what="the log", limit=lines.LARGEST) if path is not None else log
    assert isinstance(text, str | bytes)
    start, events, whole = lines.read_log(text)
    same = lines.owners_mark(start.parties) == start.owners
    require_state(same, WHAT, "parties", "the owners are not those of the campaign's fingerprint")
    table = Table.of(items, what="items")
    added = sum(len(event.rows) for event in events if isinstance(event, lines.Add))
    expected = start.n + added
    told = f"this log belongs to a pool of {expected} rows, here are {len(table)}"
    require_state(len(table) == expected, WHAT, "", told)
    lines.check_pool(start.fingerprint, table.part(slice(0, start.n)))
    campaign = _begun(kind, start, table.part(slice(0, start.n)), learner, solo)
    _check_commitment(start, campaign)
    for number, event in enumerate(events, start=2):
        try:
            apply_line(campaign, event, table, f"line {number}")
        except InvalidStateError:
            raise
        except (InvalidInputError, ProtocolError) as error:
            if "fitting the learner" in str(error) or "cannot score the pool" in str(error):
                raise
            raise refusal(WHAT, f"line {number}", str(error)) from None
    if path is not None:
        # a crash may have lost half a line, or lines that follow from the one before
        campaign._path, campaign._size = path, len(text)
        if whole < len(text) or len(campaign._lines) > len(events) + 1:
            campaign._write_whole(path)
    return campaign


def _begun(
    kind: type[Campaign], start: lines.Start, table: Table, learner: Any, solo: Any
) -> Campaign:
    s = start.settings
    owners = {
        name: lines.positions(rows, start.n, f"parties[{name[:40]!r}]")
        for name, rows in start.parties.items()
    }
    known = {}
    for item, code in start.known.items():
        fits = item.isdecimal() and int(item) < start.n and code < len(start.classes)
        require_state(fits, WHAT, "known", f"row {item[:20]} or its label does not exist")
        known[int(item)] = start.classes[code]
    try:
        return kind(
            table, owners=owners, classes=start.classes,
            learner=lines.rebuild(s.learner, learner, "learner"), committee=s.committee,
            max_error=s.max_error, confidence=s.confidence, scope=s.scope, noise=s.noise,
            first_to=s.first_to, free=s.free, stake=s.stake, batch=s.batch, known=known,
            solo=lines.rebuild(s.solo, solo, "solo"), random_state=start.seed,
        )  # fmt: skip
    except InvalidStateError:
        raise
    except InvalidInputError as error:
        if "pass it again" in str(error):
            raise
        raise refusal(WHAT, "line 1", str(error)) from None


def _check_commitment(start: lines.Start, campaign: Campaign) -> None:
    same = campaign._state.commitment() == start.commit
    require_state(same, WHAT, "commit", "the audit orders are not those of the seed")
    # the line as it was written: a learner that was given again is named as before
    campaign._lines[0] = lines.line_text(start)


def apply_line(campaign: Campaign, event: lines.Line, table: Table, where: str) -> None:
    """Do what a line says; lines that follow from others are compared with what followed."""
    match event:
        case lines.Ask(id=name):
            campaign._advance()
            if name not in campaign._questions:
                campaign._open()  # gives every open question its number
            if name in campaign._questions:
                campaign._show(campaign._questions[name])
            expected = lines.line_text(event)
            require_state(campaign._lines[-1] == expected, WHAT, where,
                          f"question {name} is not what the campaign asks here")  # fmt: skip
        case lines.LaunchLine() | lines.CertifyLine():
            campaign._advance()
            require_state(lines.line_text(event) in campaign._lines, WHAT, where,
                          "it does not follow from the answers before it")  # fmt: skip
        case lines.Tell(id=name, label=label, labeler=labeler):
            told = f"there is no class {label}"
            require_state(label < len(campaign.classes), WHAT, where, told)
            campaign._take(campaign._find(name), label, labeler)
        case lines.Skip(id=name, labeler=labeler):
            campaign._take(campaign._find(name), SKIPPED, labeler)
        case lines.Retract(id=name, blind=blind):
            campaign.retract(name, blind=blind)
        case lines.Expire(id=name):
            campaign.expire(name)
        case lines.Withdraw(item=item, reason=reason):
            campaign.withdraw(item, reason)
        case lines.Leave(party=party, forget=forget):
            campaign.remove_party(party, forget=forget)
        case lines.Add():
            _add(campaign, event, table, where)


def _add(campaign: Campaign, event: lines.Add, table: Table, where: str) -> None:
    size = len(campaign._state.table)
    rows = np.array(event.rows, dtype=np.int64)
    fits = np.array_equal(rows, np.arange(size, size + len(rows)))
    require_state(fits, WHAT, where, f"new rows must follow row {size - 1}")
    lines.check_pool(event.fingerprint, table.part(rows))
    campaign._advance()
    state = campaign._state
    number = len(state.names)
    if event.joins:
        require_state(event.party not in state.names, WHAT, where, "the party is there already")
    else:
        number = campaign._party(event.party)
    larger = table.part(slice(0, size + len(rows)))
    campaign._enlarge(larger, event.party, number, rows, joins=event.joins)


def joined_tables(old: Table, items: Any) -> Table:
    """The pool with new rows below; columns are matched by name."""
    new = Table.of(items, what="items", columns=old.names)
    if new.container != old.container or new.is_sparse != old.is_sparse:
        raise InvalidInputError(f"new items must be {old.container} like the pool")
    if isinstance(old.rows, pd.DataFrame):
        rows = pd.concat([old.rows, new.frame()])
        return Table.of(rows, what="items")
    if old.container == "texts":
        return Table.of([*old.rows, *new.rows], what="items")
    if old.is_sparse:
        from scipy.sparse import vstack

        return Table.of(vstack([old.rows, new.rows], format="csr"), what="items")
    if isinstance(old.rows, np.ndarray) and isinstance(new.rows, np.ndarray):
        if old.rows.shape[1:] != new.rows.shape[1:]:
            raise InvalidInputError(
                f"new items have shape {new.rows.shape[1:]}, the pool has {old.rows.shape[1:]}"
            )
        return Table.of(np.concatenate([old.rows, new.rows]), what="items")
    return Table.of(pd.concat([old.frame(), new.frame()]), what="items")
