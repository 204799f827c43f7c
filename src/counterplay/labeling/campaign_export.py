"""A campaign as lines that anybody can recount: answers, frozen vectors, certificates, labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from counterplay.core import export_bodies as lines
from counterplay.core.exports import EventChain, write_export
from counterplay.labeling.campaign_report import CampaignResult
from counterplay.labeling.campaign_state import CampaignState
from counterplay.labeling.certificate import FrozenVector, LabelCertificate

if TYPE_CHECKING:
    from counterplay.labeling.campaign_questions import Question


def export_text(
    study: str,
    state: CampaignState,
    result: CampaignResult,
    questions: Sequence[Question],
    answered: Mapping[str, tuple[int, str | None]],
) -> str:
    """Write answers, tests and result as an export for ``counterplay verify``."""
    chain = EventChain("campaign")
    by_id = {question.id: question for question in questions}
    for name, (code, labeler) in answered.items():
        asked = by_id[name]
        told = lines.CampaignTold(
            id=name, party=state.names.index(asked.party), item=asked.item, kind=asked.kind,
            repeat=asked.repeat, label=None if code < 0 else code,
        )  # fmt: skip
        chain.add("campaign.tell", _plain(told), actor=labeler or asked.party)
    for number, (vector, scope, parties, own, certificate) in enumerate(tested_vectors(state)):
        launched = lines.CampaignLaunched(
            vector=number, scope=scope, parties=parties, own=own, alpha=vector.alpha,
            items=tuple(vector.items.tolist()), labels=tuple(vector.labels.tolist()), n=vector.n,
        )  # fmt: skip
        chain.add("campaign.launch", _plain(launched), actor="coordinator")
        if certificate is not None:
            passed = lines.CampaignCertified(
                vector=number, scope=scope, checked=certificate.checked, wrong=certificate.wrong,
                known_wrong=vector.known_wrong, bound=certificate.bound,
            )  # fmt: skip
            chain.add("campaign.certify", _plain(passed), actor="coordinator")
    place = {label: code for code, label in enumerate(state.settings.classes)}
    stated = lines.CampaignStated(
        labels=tuple(place.get(label) for label in result.labels.tolist()),
        certificates=tuple(name for name, c in result.certificates.items() if c.holds),
    )
    chain.add("campaign.result", _plain(stated), actor="coordinator")
    config = structs.replace(
        export_config(state), names=tuple(state.names), free=state.settings.free
    )
    return write_export(study, "campaign", _plain(config), [chain])


_Test = tuple[FrozenVector, str, tuple[int, ...], bool, LabelCertificate | None]


def tested_vectors(state: CampaignState) -> list[_Test]:
    """Every vector that was tested, joint and own, with its certificate if it passed."""
    joint = state.joint
    assert joint is not None
    passed = {event.vector.number: event.certificate for event in joint.certified}
    found: list[_Test] = []
    for scope, vectors in joint.vectors.items():
        for vector in vectors:
            certificate = passed.get(vector.number)
            name = certificate.scope if certificate else ("union" if scope < 0 else
                                                          state.names[scope])  # fmt: skip
            found.append((vector, name, joint.covers[vector.number], False, certificate))
    for party, shadow in joint.shadows.items():
        certified = getattr(shadow.run, "certified", None)
        for vector in getattr(shadow.run, "vectors", ()):
            own = shadow.run.certificate if vector is certified else None
            own = own if own is not None and own.holds else None
            found.append((vector, state.names[party], (party,), True, own))
    return found


def export_config(state: CampaignState) -> lines.CampaignConfig:
    """What was begun, as line 1 of an export states it."""
    s = state.settings
    return lines.CampaignConfig(
        items=len(state.table),
        parties={name: tuple(state.items_of(i).tolist()) for i, name in enumerate(state.names)},
        classes=tuple(str(label) for label in s.classes),
        max_error=s.max_error,
        confidence=s.confidence,
        first_to=s.first_to,
        noisy=s.noise > 0,
        seed=s.seed,
        blocks=tuple(state.blocks),
        commit=state.commitment(),
        known=tuple(state.known.items()),
        withdrawn=tuple(sorted(state.withdrawn)),
    )


def _plain(record: Any) -> Any:
    return msgspec.to_builtins(record)
