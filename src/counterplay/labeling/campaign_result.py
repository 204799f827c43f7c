"""From the state of a campaign to labels and certificates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from counterplay.core.validation import BoolArray, FloatArray, IntArray
from counterplay.labeling.bounds import adjudication_error
from counterplay.labeling.campaign_report import CampaignResult, PartyWork, WorkReport
from counterplay.labeling.campaign_state import CampaignState
from counterplay.labeling.certificate import LabelCertificate
from counterplay.labeling.joint import UNION, Joint
from counterplay.tables.cells import listed
from counterplay.tables.labels import as_labels


def campaign_result(state: CampaignState) -> CampaignResult:
    """Labels with their sources, and everything that can be signed."""
    joint = state.joint
    assert joint is not None
    n = len(state.table)
    codes, score = _predicted(state, joint, n)
    source = np.where(codes >= 0, "model", "").astype(object)
    for item, code in joint.settled.items():
        codes[item], source[item] = code, "model"
    _answered(state, joint, codes, score, source)
    for item, code in state.known.items():
        codes[item], score[item], source[item] = code, 1.0, "known"
    counts, disputed = _disputes(state, codes)
    certificates = _certificates(state, joint)
    return CampaignResult(
        labels=_labels(state.settings.classes, codes),
        score=np.where(codes >= 0, score, np.nan),
        source=tuple(source.tolist()),
        answers=counts,
        is_disputed=disputed,
        certificates=certificates,
        withdrawn=dict(state.withdrawn),
        index=state.table.index,
        notes=_notes(state, joint, certificates),
    )


def work_report(state: CampaignState, *, estimate: bool) -> WorkReport:
    """The account of every party, and what "alone" means for it."""
    joint = state.joint
    assert joint is not None
    accounts = []
    for i, name in enumerate(state.names):
        shadow = joint.shadows.get(i)
        asked, void = state.asked(i), state.void(i)
        least, free, outside = state.left.get(i, (0, 0, 0))
        if shadow is not None:
            least, free, outside = shadow.alone_at_least, shadow.free, len(shadow.outside)
        saving = None
        if estimate and shadow is not None:
            saving = float(expected_work(state, i) + void - asked)
        accounts.append(
            PartyWork(
                party=name, asked=asked,
                alone_at_least=least, free=free, outside_core=outside, retracted=void,
                finished_by="left" if shadow is None else shadow.finished_by,
                expected_saving=saving,
            )
        )  # fmt: skip
    solo = state.settings.solo
    told = "; ".join(f"{k}: {v}" for k, v in solo.items()) if isinstance(solo, dict) else solo
    return WorkReport(tuple(accounts), str(told), state.settings.stake)


def expected_work(state: CampaignState, party: int) -> int:
    """Estimate of what a party would do alone: its protocol run on answers and predictions."""
    joint = state.joint
    assert joint is not None
    shadow = joint.shadows[party]
    if shadow.step is None:
        return shadow.alone_at_least
    codes, _ = _predicted(state, joint, len(state.table))
    solo = state.settings.solo
    chosen = solo[state.names[party]] if isinstance(solo, dict) else solo
    run = chosen.start(state.solo_pool(party, np.array(sorted(shadow.items), dtype=np.int64)))
    asked: set[tuple[int, str]] = set()
    noisy = joint.answers.noisy
    while (step := run.ask()) is not None:
        results = {}
        for item in step.items:
            asked.add((item, step.kind if noisy else "label"))
            found = joint.answers.result(party, item, step.kind)
            results[item] = max(0, int(codes[item])) if found is None else found
        run.tell(results)
    repeats = state.settings.first_to
    return sum(repeats if kind == "audit" else 1 for x, kind in asked if x not in state.known)


def _predicted(state: CampaignState, joint: Joint, n: int) -> tuple[IntArray, FloatArray]:
    """The models' labels and scores; -1 where there is no model yet."""
    codes, score = np.full(n, -1, dtype=np.int64), np.zeros(n)
    trained = len(joint.trained)
    if joint.scores is not None:
        size = len(joint.scores)
        codes[:size] = joint.scores.argmax(axis=1)
        score[:size] = joint.scores.max(axis=1)
    for shadow in joint.shadows.values():
        scores = getattr(shadow.run, "scores", None)
        if scores is None or joint.scores is not None:
            continue
        items = shadow.run.pool.items
        codes[items], score[items] = scores.argmax(axis=1), scores.max(axis=1)
    # a model that has seen t answers cannot be surer than this
    return codes, np.minimum(score, 1.0 - 1.0 / (trained + 2.0))


def _answered(
    state: CampaignState, joint: Joint, codes: IntArray, score: FloatArray, source: Any
) -> None:
    """People's answers: final without noise; with noise only adjudicated ones are."""
    noise, first_to = state.settings.noise, state.settings.first_to
    covered = joint.settled if noise else {}
    for key, told in state.given.items():
        item = key[0]
        if key[1] == "learn":
            # one answer that may be wrong: a certified vector has weighed it already
            label = next((told[party] for party in sorted(told) if told[party] >= 0), -1)
            if label >= 0 and source[item] != "check" and item not in covered:
                codes[item], score[item], source[item] = label, 1.0 - noise, "person"
            continue
        found = joint.answers.fixed(item)
        if found >= 0:
            codes[item] = found
            sure = 1.0 if not noise else 1.0 - adjudication_error(noise, first_to)
            score[item], source[item] = sure, "check" if noise else "person"


def _disputes(state: CampaignState, codes: IntArray) -> tuple[IntArray, BoolArray]:
    """Number of answers about each item, and whether one of them differs from its label."""
    counts = np.zeros(len(codes), dtype=np.int64)
    disputed = np.zeros(len(codes), dtype=np.bool_)
    for key, told in state.given.items():
        counts[key[0]] += len(told)
        if any(code >= 0 and code != codes[key[0]] for code in told.values()):
            disputed[key[0]] = True
    return counts, disputed


def _certificates(state: CampaignState, joint: Joint) -> dict[str, LabelCertificate]:
    """All that can be signed, by whom it speaks of."""
    found: dict[str, LabelCertificate] = {}
    for party, shadow in joint.shadows.items():
        own = getattr(shadow.run, "certificate", None)
        if shadow.finished_by == "own" and own is not None:
            found[state.names[party]] = replace(own, scope=state.names[party])
    for event in joint.certified:
        found[event.certificate.scope] = event.certificate
    return found


def _notes(
    state: CampaignState, joint: Joint, certificates: dict[str, LabelCertificate]
) -> tuple[str, ...]:
    """What a reader must know about the certificates."""
    s = state.settings
    notes = []
    own = any(shadow.finished_by == "own" for shadow in joint.shadows.values())
    if own and joint.certified:
        both = 100 * (1 - 2 * s.alpha)
        notes.append(f"own and joint certificates are two statements; both hold with {both:g} %")
    if any(event.scope == UNION for event in joint.certified):
        notes.append(
            "the joint certificate is about all items together; a single party's share of wrong "
            "labels may be larger, at most by the factor (all items / its items)"
        )
    if s.noise:
        wrong = 100 * adjudication_error(s.noise, s.first_to)
        notes.append(
            f"wrong means: differs from the adjudicated answer (first to {s.first_to}); with "
            f"{100 * s.noise:g} % wrong answers, independent of each other, that is itself wrong "
            f"for {wrong:.2g} % of the items"
        )
    skipped = sum(code < 0 for told in state.given.values() for code in told.values())
    if skipped:
        told = "1 question was" if skipped == 1 else f"{skipped} questions were"
        notes.append(
            f"{told} skipped; a skipped "
            "check counts as a wrong label, because nothing shows that the label is right"
        )
    unheard = _unheard(state)
    if unheard:
        notes.append(
            f"nobody answered {listed(unheard)}, so the model never gives it; if there are such "
            "items, begin with a few of them as known= labels"
        )
    weaker = [name for name, found in certificates.items() if not found.holds]
    if weaker:
        notes.append(
            f"{listed(weaker)}: not shown what was to be shown; shared items keep the labels of "
            "an earlier certificate, and each that differs counts as wrong"
        )
    if state.late:
        notes.append(
            f"{len(state.late)} items came when their party was just done (first: item "
            f"{state.late[0]}): no certificate covers them; begin a new campaign with known= labels"
        )
    if state.finished and not certificates:
        left = len(state.gone) == len(state.names)
        notes.append(
            "every party has left before anything was certified" if left
            else "every question was asked and nothing could be certified"
        )  # fmt: skip
    return tuple(notes)


def _unheard(state: CampaignState) -> list[Any]:
    """Classes that nobody gave, once the first questions are answered."""
    heard = {code for told in state.given.values() for code in told.values()}
    heard |= set(state.known.values())
    joint = state.joint
    if joint is None or not joint.round:
        return []
    return [label for code, label in enumerate(state.settings.classes) if code not in heard]


def _labels(classes: tuple[Any, ...], codes: IntArray) -> Any:
    if (codes >= 0).all():
        return as_labels(classes)[codes]
    labels = np.empty(len(codes), dtype=object)
    labels[:] = [None if code < 0 else classes[code] for code in codes.tolist()]
    return labels
