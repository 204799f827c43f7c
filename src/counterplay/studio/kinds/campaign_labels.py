"""The labels of a campaign: what the record fixes by itself, and the table that is handed out.

Certified labels, people's answers and known ones need no model. Where the rule of today departs
from the record nothing else is stated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from counterplay.labeling.shadow import Answers
from counterplay.studio.kinds.campaign_config import item_names

if TYPE_CHECKING:
    from counterplay.studio.kinds.campaign_fold import CampaignFold
    from counterplay.studio.kinds.campaign_record import CampaignRecord


def settled(record: CampaignRecord) -> dict[int, int]:
    """Labels that rest on the record alone: certified ones, people's answers, known ones."""
    return certified_labels(record) | said(record) | dict(record.known)


def certified_labels(record: CampaignRecord) -> dict[int, int]:
    """Labels that certificates speak of; of shared items those of the first one stay."""
    found: dict[int, int] = {}
    for number in record.certified:
        test = record.launched[number]
        for item, code in zip(test.items, test.labels):
            found.setdefault(item, code)
    return found


def said(record: CampaignRecord) -> dict[int, int]:
    """Labels that people's answers fix; with noise only adjudicated ones do."""
    names, noisy = list(record.config["parties"]), bool(record.config["noisy"])
    told = Answers(record.config["first_to"], noisy, "own", {})
    for name, answer in record.answers.items():
        q = record.questions[name]
        key = told.key(q.item, q.kind, q.repeat)
        told.given.setdefault(key, {})[names.index(q.party)] = answer.code
    items = {item for item, kind, _ in told.given if kind != "learn"}
    found = {item: told.fixed(item) for item in items}
    return {item: code for item, code in found.items() if code >= 0}


def labels(state: CampaignFold) -> list[dict[str, Any]]:
    """One row per item: its label, how sure, where it is from, answers, whether one differs.

    Where the rule of today departs from the record, labels are those that were stated, or follow
    from answers and certificates of the record; nothing is predicted.
    """
    names = item_names(state.config["page"])
    if state.departed:
        stated = None if state.stated is None else dict(enumerate(state.stated.labels))
        found = _fixed_rows(state, settled(state) if stated is None else stated)
        empty = {"label": None, "score": float("nan"), "source": "", "answers": 0,
                 "disputed": False}  # fmt: skip
        return [{"item": name, **found.get(item, empty)} for item, name in enumerate(names)]
    frame = state.campaign.result().to_frame()
    rows = (row._asdict() for row in frame.itertuples(index=False))
    return [{"item": name, **row} for name, row in zip(names, rows)]


def _fixed_rows(state: CampaignFold, labels: Mapping[int, int | None]) -> dict[int, dict[str, Any]]:
    """Rows of labels that no model of today has touched, and of what else people answered."""
    people, known, heard = said(state), dict(state.known), dict[int, list[int]]()
    for answer in state.answers.values():
        heard.setdefault(answer.item, []).append(answer.code)
    classes = state.config["classes"]
    found = {}
    for item in {**labels, **heard}:
        code = labels.get(item)
        source = "known" if item in known else "person" if item in people else "model"
        codes = heard.get(item, [])
        found[item] = {
            "label": None if code is None else classes[code], "score": float("nan"),
            "source": "" if code is None else source, "answers": len(codes),
            "disputed": any(said_code not in (-1, code) for said_code in codes),
        }  # fmt: skip
    return found
