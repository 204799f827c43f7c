"""What a campaign would cost on data whose labels are known: alone, together, pooled.

The solo runs are those of the campaign: same seeds, same audit orders, same attached answers.
Source: docs/theory/24-campaign.md, "Measured".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplay.core.arguments import checked
from counterplay.core.report import Report
from counterplay.core.seeds import derive_seed
from counterplay.core.validation import IntArray, check_int
from counterplay.labeling.campaign import Campaign
from counterplay.labeling.shadow import Answers, Shadow
from counterplay.labeling.solo import TestFirstSolo
from counterplay.tables import Labels, Table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

Oracle = Callable[[int, int, str, int], int]
"""Party, item, kind and repeat to the code of the answer."""
WAYS = ("alone", "together", "pooled_uncertainty", "pooled_random")


@checked
@dataclass(frozen=True)
class CampaignStudy(Report):
    """Questions per party and repetition, and how true the certificates are.

    Attributes
    ----------
    rows:
        One record per repetition and party: questions alone, together and in one pool.
    certificates:
        One record per certificate: way, scope, true share of wrong labels, whether it is false.
    max_error:
        The share that certificates promise.
    """

    rows: tuple[Mapping[str, Any], ...]
    certificates: tuple[Mapping[str, Any], ...]
    max_error: float

    def summary(self) -> str:
        """Mean questions per party, who was worse off, and false certificates."""
        frame = self.to_frame()
        alone = frame["alone"].mean()
        lines = []
        for way in WAYS:
            mean, worse = frame[way].mean(), int((frame[way] > frame["alone"]).sum())
            gain = f" ({100 * (mean / alone - 1):+.0f} %)" if way != "alone" else ""
            told = f"; {worse} of {len(frame)} worse than alone" if way != "alone" else ""
            lines.append(f"{way.replace('_', ' ')}: {mean:.0f} questions per party{gain}{told}")
        false = sum(record["false"] for record in self.certificates)
        lines.append(f"{false} of {len(self.certificates)} certificates are false")
        return "\n".join(lines)

    def to_frame(self) -> pd.DataFrame:
        """One row per repetition and party."""
        import pandas as pd

        return pd.DataFrame(list(self.rows))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Questions per party, one dot per repetition; worse than alone in red."""
        from counterplay.core.figures import axes_or_new

        axes, frame = axes_or_new(ax), self.to_frame()
        rng = np.random.default_rng(0)
        for place, way in enumerate(WAYS):
            worse = (frame[way] > frame["alone"]).to_numpy()
            x = place + rng.uniform(-0.2, 0.2, len(frame))
            axes.scatter(x[~worse], frame[way][~worse], s=12, color="#0072B2", alpha=0.6)
            axes.scatter(x[worse], frame[way][worse], s=18, color="#D55E00", marker="x")
            axes.hlines(frame[way].mean(), place - 0.3, place + 0.3, color="0.2")
        axes.set_xticks(range(len(WAYS)), [way.replace("_", "\n") for way in WAYS])
        axes.set(ylabel="questions per party", ylim=(0, None))
        return axes


def simulate(
    items: Any,
    y: Any,
    *,
    owners: Any,
    settings: Mapping[str, Any],
    seeds: int = 1,
    random_state: int = 0,
    pooled: bool = True,
) -> CampaignStudy:
    """Play campaigns on known labels; see :meth:`Campaign.simulate`."""
    truth = Labels.of(y, rows=len(Table.of(items, what="items")))
    rows: list[dict[str, Any]] = []
    certificates: list[dict[str, Any]] = []
    base = check_int(random_state, "random_state", low=0)
    scope = settings.get("scope", "party")
    for seed in range(base, base + check_int(seeds, "seeds", low=1)):
        found = compare(items, truth, owners, settings, seed=seed, scopes=(scope,), pooled=pooled)
        found.work["together"] = found.work.pop(scope)
        for party, name in enumerate(found.names):
            asked = {way: found.work[way][party] for way in WAYS}
            rows.append({"seed": seed, "party": name, **asked})
        certificates += [{"seed": seed, **record} for record in found.certificates]
    return CampaignStudy(tuple(rows), tuple(certificates), float(settings.get("max_error", 0.05)))


@dataclass
class Comparison:
    """One data set, one seed: questions of each party by way, and the certificates."""

    names: list[str]
    work: dict[str, list[int]]
    certificates: list[dict[str, Any]]


def compare(
    items: Any,
    truth: Labels,
    owners: Any,
    settings: Mapping[str, Any],
    *,
    seed: int,
    scopes: tuple[str, ...] = ("party", "union"),
    pooled: bool = True,
) -> Comparison:
    """Play the same answers alone, together with each scope, and in one pool."""
    work: dict[str, list[int]] = {}
    certificates: list[dict[str, Any]] = []
    for scope in scopes:
        rules = {**settings, "scope": scope}
        campaign = Campaign(items, owners=owners, classes=truth.classes, random_state=seed, **rules)
        names = campaign._state.names
        oracle = attached(truth.codes, len(truth.classes), campaign._state.settings.noise, seed)
        if "alone" not in work:
            runs = [solo_run(campaign, i, oracle, truth.codes) for i in range(len(names))]
            work["alone"] = [asked for asked, _ in runs]
            certificates += [record for _, record in runs if record]
        answer_all(campaign, oracle)
        work[scope] = [account.asked for account in campaign.work().parties]
        certificates += [{**r, "way": scope} for r in _promised(campaign, truth.codes)]
    for way, choose in (("pooled_uncertainty", "margin"), ("pooled_random", "random")):
        work[way] = [0] * len(names)
        if pooled:
            work[way], record = _pooled(items, truth, campaign, settings, choose, seed)
            certificates += [{**record, "way": way}] if record else []
    return Comparison(list(names), work, certificates)


def attached(codes: IntArray, n_classes: int, noise: float, seed: int) -> Oracle:
    """People's potential answers: fixed in advance, wrong with chance ``noise``.

    An answer depends on who is asked what and how often before, not on when or why.
    """
    drawn: dict[tuple[int, str, int], IntArray] = {}

    def answer(party: int, item: int, kind: str, repeat: int) -> int:
        if noise == 0.0:
            return int(codes[item])
        who = party, kind, repeat
        if who not in drawn:
            rng = np.random.default_rng(derive_seed("answers", seed, *who))
            wrong = (codes + rng.integers(1, n_classes, len(codes))) % n_classes
            drawn[who] = np.where(rng.random(len(codes)) < noise, wrong, codes)
        return int(drawn[who][item])

    return answer


def answer_all(campaign: Campaign, oracle: Oracle, n: int = 1_000_000) -> None:
    """Answer every question of a campaign until it ends."""
    names = campaign._state.names
    classes = campaign.classes
    while questions := campaign.ask(n):
        for q in questions:
            code = oracle(names.index(q.party), q.item, q.kind, q.repeat)
            campaign.tell(q, classes[code])


def solo_run(
    campaign: Campaign, party: int, oracle: Oracle, codes: IntArray
) -> tuple[int, dict[str, Any] | None]:
    """What a party does alone: number of questions, and how true its certificate is."""
    state = campaign._state
    s = state.settings
    items = state.items_of(party)
    answers = Answers(s.first_to, s.noise > 0, "own", state.known)
    solo = s.solo[state.names[party]] if isinstance(s.solo, dict) else s.solo
    run = solo.start(state.solo_pool(party, items))
    shadow = Shadow(party, items.tolist(), run, answers)
    while shadow.step is not None:
        kind = shadow.step.kind
        while wanted := shadow.wanted():
            for key in wanted:
                answers.given[key] = {party: oracle(party, key[0], kind, key[2])}
        shadow.feed()
    if getattr(run, "certificate", None) is None:
        return len(shadow.passed), None
    labels = np.full(len(codes), -1, dtype=np.int64)
    frozen = run.frozen
    labels[list(frozen)] = list(frozen.values())
    for key in answers.given:
        found = answers.result(party, key[0], "audit" if key[1] != "learn" else "learn")
        if key[1] != "learn" or labels[key[0]] < 0:
            labels[key[0]] = -1 if found is None else found
    share = float((labels[items] != codes[items]).mean())
    return len(shadow.passed), {
        "way": "alone", "scope": state.names[party], "share": share, "false": share > s.max_error,
    }  # fmt: skip


def _promised(campaign: Campaign, codes: IntArray) -> list[dict[str, Any]]:
    """True share of wrong labels for every certificate of a finished campaign."""
    state, result = campaign._state, campaign.result()
    joint = state.joint
    assert joint is not None
    classes = list(campaign.classes)
    labels = np.array([classes.index(label) for label in result.labels.tolist()])
    found = []
    for scope in result.certificates:
        if scope in state.names:
            items = state.items_of(state.names.index(scope))
        else:
            parties = {p for e in joint.certified for p in joint.covers[e.vector.number]}
            items = np.unique(np.concatenate([state.items_of(p) for p in sorted(parties)]))
        share = float((labels[items] != codes[items]).mean())
        wrong = share > state.settings.max_error
        found.append({"way": "together", "scope": scope, "share": share, "false": wrong})
    return found


def _pooled(
    items: Any,
    truth: Labels,
    together: Campaign,
    settings: Mapping[str, Any],
    choose: Any,
    seed: int,
) -> tuple[list[int], dict[str, Any] | None]:
    """One pool, one protocol, nobody protected: questions of each party and the certificate."""
    state = together._state
    base = settings.get("solo")
    solo = replace(base if isinstance(base, TestFirstSolo) else TestFirstSolo(), choose=choose)
    everybody = ["everybody"] * len(state.table)
    one = Campaign(
        items, owners=everybody, classes=truth.classes, random_state=seed,
        **{**settings, "solo": solo, "scope": "party"},
    )  # fmt: skip
    home = np.zeros(len(state.table), dtype=np.int64)
    for party in reversed(range(len(state.names))):
        home[state.items_of(party)] = party
    plain = attached(truth.codes, len(truth.classes), state.settings.noise, seed)
    answer_all(one, lambda _, item, kind, repeat: plain(int(home[item]), item, kind, repeat))
    work = np.zeros(len(state.names), dtype=np.int64)
    for question in one._questions.values():
        work[home[question.item]] += 1
    promised = _promised(one, truth.codes)
    record = {k: v for k, v in promised[0].items() if k != "way"} if promised else None
    return work.tolist(), record
