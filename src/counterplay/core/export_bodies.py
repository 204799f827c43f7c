"""What the lines of an export hold, for every kind of study: configuration, events, result.

Writers (sessions, the terminal, the studio) and the reader (``counterplay verify``) share these
types and nothing else.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, field

from counterplay.core.records import Count, Fraction, Name, Nonnegative, Positive, Record, Word

Row = Annotated[tuple[float, ...], Meta(min_length=1, max_length=10_000)]
Many = Meta(max_length=10_000_000)
Said = Literal["first", "second", "same"]
Rate = Annotated[float, Meta(ge=0.0, lt=0.5)]


class Columns(Record, frozen=True):
    """Which columns of a table the items were made of, and which rows."""

    benefits: tuple[Name, ...]
    costs: tuple[Name, ...]
    scale: Literal["range", "max"]
    rows: Annotated[tuple[Count, ...], Many]
    either: tuple[Name, ...] = ()
    """Columns of which some want more, some less."""
    curves: dict[Name, Annotated[int, Meta(ge=1, le=20)]] = field(default_factory=dict)
    """Number of segments of the columns whose worth bends, between quantiles."""


class ElicitationConfig(Record, frozen=True):
    """Items to choose from, as values of which more is better, and what was promised."""

    items: Annotated[tuple[Row, ...], Meta(min_length=1, max_length=10_000_000)]
    target: Nonnegative
    columns: Columns | None = None


class Shown(Record, frozen=True):
    """One option as it was shown; ``id`` is its row in the items, None if it is made up."""

    id: Count | None
    values: Row


class Pair(Record, frozen=True):
    """The two options of a question."""

    first: Shown
    second: Shown


class Answered(Record, frozen=True):
    """``elicit.answered``: the question as it was shown and what the person said."""

    number: Count
    shown: Pair
    answer: Said
    purpose: Word
    about: Count | None = None


class Undone(Record, frozen=True):
    """``elicit.undone``: the last answer is taken back; ``seq`` is its event."""

    seq: Positive


class Nothing(Record, frozen=True):
    """An event that says all by its kind."""


class ElicitationStated(Record, frozen=True):
    """``elicit.result``: the recommendation and its certificate."""

    item: Count
    regret_certificate: Fraction
    set_aside: tuple[Count, ...]
    questions: Count


Chance = Annotated[float, Meta(gt=0.0, le=1.0)]
Chances = Annotated[tuple[Chance, ...], Meta(min_length=2, max_length=4)]
Options = Annotated[tuple[Shown, ...], Meta(min_length=2, max_length=4)]
Order = Annotated[tuple[Count, ...], Meta(min_length=1, max_length=4)]


class ReliableConfig(Record, frozen=True):
    """Items, and what is promised to people of whose answers some share may be wrong."""

    promise: Literal["reliable"]
    items: Annotated[tuple[Row, ...], Meta(min_length=2, max_length=1_000_000)]
    unknown: Annotated[tuple[Count, ...], Meta(max_length=6)]
    """Places of the values of which some want more and some less."""
    target: Nonnegative
    confidence: Annotated[float, Meta(gt=0.0, lt=1.0)]
    rates: Annotated[tuple[Rate, ...], Meta(min_length=1, max_length=10)]
    """Bounds on the share of wrong answers; they share the error probability."""
    jnd: Fraction
    running: bool
    """Whether a preference that was excluded once stays excluded."""
    columns: Columns | None = None
    page: dict[str, Any] | None = None
    """How the items are shown: names, units, texts; nothing of it enters a certificate."""


class Asked(Record, frozen=True):
    """``elicit.asked``: the options in the order shown, and the forecast before the answer.

    ``then`` belongs to rankings: the forecast of the others, in their order, for each of the
    options that may be named first.
    """

    number: Count
    shown: Options
    forecast: Chances
    then: Annotated[tuple[Chances, ...], Meta(max_length=4)] = ()
    repeat_of: Count | None = None
    left: Count | None = None
    """About how many questions were still to come: an estimate, told to the person."""


class Chosen(Record, frozen=True):
    """``elicit.answered``: places of the options shown, the best first; a choice names one."""

    asked: Positive
    order: Order
    answer: Literal["first", "second"] | None = None
    """The same in words, for a choice between two."""
    ms: Count | None = None
    """Milliseconds from the question to the answer, as the page measured them."""


class Unsaid(Record, frozen=True):
    """``elicit.cannot_say``: the question was not decided."""

    asked: Positive
    said: Literal["same", "cannot say"]
    ms: Count | None = None


class Volunteered(Record, frozen=True):
    """``elicit.volunteered``: a comparison that nobody asked for; no order: not decided."""

    shown: Annotated[tuple[Shown, ...], Meta(min_length=2, max_length=2)]
    forecast: Annotated[tuple[Chance, ...], Meta(min_length=2, max_length=2)]
    order: Annotated[tuple[Count, ...], Meta(max_length=1)]


class Worth(Record, frozen=True):
    """What an item is worth to the person: posterior mean and 90 % band, an estimate."""

    item: Count
    mean: float
    low: float
    high: float


class ReliableStated(Record, frozen=True):
    """``elicit.result``: the recommendation and its numbers, each with its condition."""

    item: Count
    regret_certificate: Fraction | None
    """At most this, with the confidence, if at most ``rate`` of the answers are wrong."""
    rate: Rate
    if_every_answer_is_right: Fraction | None
    credible_regret: Fraction
    """An estimate, which rests on the prior; it cannot be recomputed from the answers."""
    questions: Count
    cannot_say: Count
    repeats: Count
    disagreements: Count
    refuted: bool
    compared: tuple[Worth, ...] = ()
    """The recommended item and the next ones; estimates, like the credible regret."""
    weights: tuple[Annotated[tuple[float, float, float], Meta()], ...] = ()
    """Posterior mean and 90 % band of each weight."""


class LabelingConfig(Record, frozen=True):
    """A finite pool problem: possible labelings with weights, and who owns which points."""

    labelings: Annotated[tuple[tuple[Count, ...], ...], Meta(min_length=1, max_length=10_000_000)]
    weights: Annotated[tuple[Nonnegative, ...], Many]
    owners: Annotated[tuple[tuple[Count, ...], ...], Meta(min_length=1, max_length=1_000_000)]
    classes: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=255)]


class Told(Record, frozen=True):
    """``label.tell``: a party labelled a point, with the code of the label."""

    party: Count
    item: Count
    label: Count


class Retracted(Record, frozen=True):
    """``label.retract``: the answers for a point are taken back."""

    item: Count


class LabelingStated(Record, frozen=True):
    """``label.result``: labels with their probability, and each party's number of answers."""

    labels: Annotated[tuple[Count, ...], Many]
    confidence: Annotated[tuple[Fraction, ...], Many]
    answers: Annotated[tuple[Count, ...], Many]
    labelings_left: Count


class CampaignConfig(Record, frozen=True):
    """A campaign: who owns which of the items, what was promised, and the seed of the orders."""

    items: Positive
    parties: Annotated[dict[Word, Annotated[tuple[Count, ...], Many]], Meta(max_length=10_000)]
    classes: Annotated[tuple[Name, ...], Meta(min_length=2, max_length=255)]
    max_error: Annotated[float, Meta(gt=0.0, lt=1.0)]
    confidence: Annotated[float, Meta(gt=0.0, lt=1.0)]
    first_to: Annotated[int, Meta(ge=1, le=20)]
    noisy: bool
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    blocks: Annotated[tuple[Positive, ...], Meta(min_length=1, max_length=1_000_000)]
    commit: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    known: Annotated[tuple[tuple[Count, Count], ...], Many]
    withdrawn: Annotated[tuple[Count, ...], Many]
    names: Annotated[tuple[Word, ...], Meta(max_length=10_000)] = ()
    """The parties in the order of their numbers; without it they are numbered as they stand."""
    free: Literal["own", "any"] | None = None
    """Whose answers about shared items count for a party; None where it is not told."""
    page: dict[str, Any] | None = None
    """What people see of the items, and what the learner is made of; nothing rests on it here."""


class CampaignTold(Record, frozen=True):
    """``campaign.tell``: an answer to the r-th question about an item; no label is a skip."""

    id: Word
    party: Count
    item: Count
    kind: Literal["learn", "audit"]
    repeat: Count
    label: Count | None


class CampaignLaunched(Record, frozen=True):
    """``campaign.launch``: labels frozen for a test, items in the order of the checks."""

    vector: Count
    scope: Name
    parties: Annotated[tuple[Count, ...], Meta(min_length=1, max_length=10_000)]
    own: bool
    items: Annotated[tuple[Count, ...], Many]
    labels: Annotated[tuple[Count, ...], Many]
    n: Count
    alpha: Annotated[float, Meta(gt=0.0, lt=1.0)]


class CampaignCertified(Record, frozen=True):
    """``campaign.certify``: how a test came out when it was passed."""

    vector: Count
    scope: Name
    checked: Count
    wrong: Count
    known_wrong: Count
    bound: Fraction


class CampaignStated(Record, frozen=True):
    """``campaign.result``: the labels, and whose certificates hold."""

    labels: Annotated[tuple[Count | None, ...], Many]
    certificates: tuple[Name, ...]


class GuardConfig(Record, frozen=True):
    """A harm budget over a number of rounds; reviews give every model a fresh start."""

    models: Annotated[int, Meta(ge=1, le=1_000_000)]
    horizon: Annotated[int, Meta(ge=1, le=1_000_000_000)]
    rate: Fraction
    burst: Nonnegative
    reviews: Annotated[tuple[Positive, ...], Many]


class LiveGuardConfig(Record, frozen=True):
    """A guard behind an interface: models by name, the budget, and the seed of the draws."""

    promise: Literal["live", "full"]
    """Whether outcomes of the live model alone are seen, or those of all models."""
    models: Annotated[tuple[Word, ...], Meta(min_length=2, max_length=1_000)]
    horizon: Annotated[int, Meta(ge=1, le=10_000_000)]
    rate: Fraction
    burst: Nonnegative
    champion: Count | None
    safe: Count
    purse: Nonnegative | None
    max_delay: Annotated[int, Meta(ge=0, le=10_000_000)]
    missing: Literal["ignore", "worst"]
    policy: Literal["guaranteed", "adaptive"]
    seed: Annotated[int, Meta(ge=0, le=2**62)]
    reviews: Annotated[tuple[Positive, ...], Many] = ()
    page: dict[str, Any] | None = None


class LiveDecided(Record, frozen=True):
    """``guard.decided``: who is live in a round, and the draw that says so."""

    decision: Count
    round: Count
    epoch: Count
    model: Count
    mode: Literal["epoch", "stand-in", "safe", "void", "full"]
    allowed: Annotated[tuple[Count, ...], Meta(max_length=1_000)]
    probabilities: Annotated[tuple[Fraction, ...], Meta(max_length=1_000)] = ()
    draw: Fraction | None = None


class LiveOutcome(Record, frozen=True):
    """``guard.outcome``: what became of a decision; nothing, if it will never be known."""

    id: Word
    decision: Count
    model: Word
    primary: Fraction | None = None
    secondary: Fraction | None = None
    missing: bool = False
    all: Annotated[dict[Word, tuple[Fraction, Fraction]], Meta(max_length=1_000)] | None = None


class LiveStated(Record, frozen=True):
    """``guard.result``: what the guard has seen when the study was closed."""

    rounds: Count
    judged: Count
    missing: Count
    harm: tuple[Nonnegative, ...]
    live_rounds: tuple[Count, ...]
    switches: Count
    largest_excess: Nonnegative
    """Harm above the rate over the worst interval of judged rounds."""
    harm_bound: Nonnegative | None


class TakenDown(Record, frozen=True):
    """``guard.taken_down``: somebody took a model out, and why."""

    model: Count
    reason: Annotated[str, Meta(min_length=1, max_length=1000)]


class Decided(Record, frozen=True):
    """``guard.decided``: who is live in a round, and who may be."""

    round: Count
    model: Count
    allowed: Annotated[tuple[Count, ...], Meta(min_length=1, max_length=1_000_000)]


class Outcome(Record, frozen=True):
    """``guard.outcome``: both losses of every model in a round."""

    round: Count
    primary: tuple[Fraction, ...]
    secondary: tuple[Fraction, ...]


class GuardStated(Record, frozen=True):
    """``guard.result``: what the budget has seen; ``harm_bound`` is None where nothing holds."""

    rounds: Count
    played: tuple[Nonnegative, Nonnegative]
    harm: tuple[Nonnegative, ...]
    needed_burst: tuple[Nonnegative, ...]
    live_rounds: tuple[Count, ...]
    switches: Count
    reviews: Count
    take_downs: Count
    harm_bound: Nonnegative | None


Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class AuditRequested(Record, frozen=True):
    """``audit.requested``: what was handed in, by name and hash."""

    inputs: Annotated[dict[Word, Sha256], Meta(max_length=20)]
    config: Annotated[str, Meta(max_length=1_000_000)] = ""


class AuditFinished(Record, frozen=True):
    """``audit.finished``: the record of the audit, its hash, and the files that were made."""

    content_sha256: Sha256
    record: dict[str, Any]
    gates: Annotated[tuple[dict[str, Any], ...], Meta(max_length=10_000)]
    artifacts: Annotated[dict[Word, Sha256], Meta(max_length=1_000)]
