"""Questions out, answers in: CSV files and Label Studio's JSON.

Neither says which questions are checks. Label Studio tasks carry no predictions unless they are
asked for, and never for checks: people follow what they are shown.
Source: docs/theory/24-campaign.md, "Files".
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from counterplay.core.arguments import checked
from counterplay.core.records import read_json
from counterplay.core.report import plain
from counterplay.errors import InvalidInputError
from counterplay.labeling.campaign import Campaign
from counterplay.labeling.campaign_questions import Question
from counterplay.tables.cells import shown

_MOST_NAMED = 20


@checked
@dataclass(frozen=True)
class FileAnswer:
    """One answer as it stands in a file; ``place`` says where."""

    question: str
    label: str
    labeler: str | None
    party: str | None
    place: str


@checked
def question_rows(
    questions: Sequence[Question], rows: pd.DataFrame, id_column: str | None = None
) -> pd.DataFrame:
    """One row per question: its id, the party, and the item's own columns, but not its purpose.

    Parameters
    ----------
    questions:
        What is to be answered.
    rows:
        The pool as people should see it, one row per item.
    id_column:
        Column that names the items; by default all columns are shown as they are.

    Examples
    --------
    >>> pool = pd.DataFrame({"text": ["hello", "win now"]})
    >>> question_rows([Question("q1", "north", 1, "audit", 0)], pool)
      question  party     text
    0       q1  north  win now
    """
    shown_rows = rows.iloc[[q.item for q in questions]].reset_index(drop=True)
    if id_column is not None:
        first = [id_column, *(c for c in shown_rows.columns if c != id_column)]
        shown_rows = shown_rows[first]
    head = pd.DataFrame(
        {"question": [q.id for q in questions], "party": [q.party for q in questions]}
    )
    clash = [c for c in shown_rows.columns if c in head.columns]
    return pd.concat([head, shown_rows.drop(columns=clash)], axis=1)


@checked
def label_studio_tasks(
    questions: Sequence[Question],
    rows: pd.DataFrame,
    *,
    predictions: dict[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Tasks for Label Studio: the row as ``data``, the question's id in ``data`` and ``meta``.

    Parameters
    ----------
    questions:
        What is to be answered.
    rows:
        The pool as people should see it.
    predictions:
        Predicted label by question id; used for learning questions only.

    Examples
    --------
    >>> pool = pd.DataFrame({"text": ["hello", "win now"]})
    >>> label_studio_tasks([Question("q1", "north", 1, "audit", 0)], pool)
    [{'data': {'text': 'win now', 'question': 'q1', 'party': 'north'}, 'meta': {'question': 'q1'}}]
    """
    tasks = []
    for q in questions:
        data = {str(k): plain(v) for k, v in rows.iloc[q.item].items()}
        task: dict[str, Any] = {
            "data": {**data, "question": q.id, "party": q.party},
            "meta": {"question": q.id},
        }
        if predictions and q.kind == "learn" and q.id in predictions:
            value = {"choices": [str(predictions[q.id])]}
            mark = {"from_name": "label", "to_name": "item", "type": "choices", "value": value}
            task["predictions"] = [{"model_version": "counterplay", "result": [mark]}]
        tasks.append(task)
    return tasks


@checked
def read_answers(text: str) -> list[FileAnswer]:
    """Read answers: CSV with the columns question, label, labeler; or a Label Studio export.

    Examples
    --------
    >>> read_answers("question,label\\nq1,spam\\n")[0].label
    'spam'
    """
    return _label_studio(text) if text.lstrip()[:1] in ("[", "{") else _csv(text)


@checked
def tell_all(campaign: Campaign, answers: Sequence[FileAnswer]) -> int:
    """Tell answers to a campaign: all of them, or none if one is bad; every bad one is named.

    A row without a label is not answered yet. Returns how many were answered.

    Parameters
    ----------
    campaign:
        The campaign.
    answers:
        What :func:`read_answers` read.
    """
    problems: list[str] = []
    ready: list[tuple[Question, Any, str | None]] = []
    seen: dict[str, str] = {}
    by_text = {str(label): label for label in campaign.classes}
    campaign.status()  # so that open questions are known
    for answer in answers:
        label = by_text.get(answer.label, answer.label)
        if label == "" and "" not in by_text:
            continue
        try:
            asked = campaign._find(answer.question)
            campaign._code(label)
            if answer.party not in (None, "", asked.party):
                raise InvalidInputError(
                    f"question {asked.id} belongs to {asked.party!r}, not to {answer.party!r}"
                )
            if asked.id in seen:
                raise InvalidInputError(f"question {asked.id} is in {seen[asked.id]}, too")
            seen[asked.id] = answer.place
            ready.append((asked, label, answer.labeler))
        except InvalidInputError as error:
            problems.append(f"{answer.place}: {error}")
    if problems:
        named = "\n  ".join(problems[:_MOST_NAMED])
        more = f"\n  and {len(problems) - _MOST_NAMED} more" if len(problems) > _MOST_NAMED else ""
        raise InvalidInputError(
            f"nothing was taken: {len(problems)} of {len(answers)} answers are bad\n  {named}{more}"
        )
    for question, label, labeler in ready:
        campaign.tell(question, label, labeler)
    return len(ready)


def _csv(text: str) -> list[FileAnswer]:
    sample = text[:4096].splitlines()[0] if text.strip() else ""
    delimiter = ";" if sample.count(";") > sample.count(",") else ","
    reader = csv.DictReader(
        io.StringIO(text.removeprefix("\ufeff"), newline=""), delimiter=delimiter
    )
    names = [name.strip().lower() for name in reader.fieldnames or []]
    missing = [name for name in ("question", "label") if name not in names]
    if missing:
        raise InvalidInputError(
            f"the answers have no column {missing[0]!r}; columns are question, label, labeler"
        )
    found = []
    try:
        for row in reader:
            cells = {str(k).strip().lower(): (v or "").strip() if isinstance(v, str) else ""
                     for k, v in row.items()}  # fmt: skip
            if any(cells.values()):
                found.append(
                    FileAnswer(cells["question"], cells["label"], cells.get("labeler") or None,
                               cells.get("party") or None, f"line {reader.line_num}")
                )  # fmt: skip
    except csv.Error as error:
        raise InvalidInputError(f"the answers cannot be read: {shown(error, 100)}") from None
    return found


def _label_studio(text: str) -> list[FileAnswer]:
    raw = read_json(text, what="the Label Studio export")
    tasks = raw if isinstance(raw, list) else [raw]
    found = []
    for number, task in enumerate(tasks, start=1):
        place = f"task {number}"
        question = _at(task, "data", "question") or _at(task, "meta", "question")
        if not isinstance(question, str):
            raise InvalidInputError(f"{place} of the export names no question in its data")
        annotations = _at(task, "annotations") or _at(task, "completions") or []
        kept = [a for a in annotations if isinstance(a, dict)]
        if not kept:
            continue  # nobody has answered yet
        label = "skip" if kept[0].get("was_cancelled") else _choice(kept[0])
        if label is None:
            raise InvalidInputError(f"{place} ({question[:40]}) has no result with choices")
        found.append(FileAnswer(question, label, _labeler(kept[0]), None, place))
    return found


def _choice(annotation: dict[str, Any]) -> str | None:
    results = annotation.get("result")
    for result in results if isinstance(results, list) else []:
        chosen = _at(result, "value", "choices")
        if isinstance(chosen, list) and chosen and isinstance(chosen[0], str):
            return chosen[0]
    return None


def _labeler(annotation: dict[str, Any]) -> str | None:
    by = annotation.get("completed_by")
    if isinstance(by, dict):
        by = by.get("email") or by.get("id")
    return None if by is None else str(by)[:200]


def _at(value: Any, *path: str) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value
