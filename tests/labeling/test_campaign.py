"""Campaigns of several parties: the account, the certificates, arrival order, noise, skips."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

sys.path.insert(0, str(Path(__file__).parent))

from campaigns import breast_cancer, digits, finish, regression, three_clinics

from counterplay.errors import AssumptionWarning, InvalidInputError
from counterplay.labeling import Campaign
from counterplay.labeling.campaign_study import attached, simulate, solo_run
from counterplay.labeling.solo import TestFirstSolo


@pytest.mark.claim("24.04")
@pytest.mark.parametrize("part", range(10))
def test_the_account_holds_after_every_event(part: int) -> None:
    for seed in range(5 * part, 5 * part + 5):
        scope = "union" if seed % 2 else "party"
        campaign, _, y = three_clinics(150, seed, scope=scope)
        oracle = attached(y, 2, 0.0, seed)
        alone = [solo_run(campaign, party, oracle, y)[0] for party in range(3)]
        before = [0, 0, 0]
        while questions := campaign.ask(7):
            for question in questions:
                campaign.tell(question, y[question.item])
                work = campaign.work().parties
                for i, account in enumerate(work):
                    assert account.asked <= account.alone_at_least <= alone[i]
                    assert account.alone_at_least >= before[i]
                    before[i] = account.alone_at_least


@pytest.mark.claim("24.10")
@pytest.mark.claim("24.11")
@pytest.mark.parametrize("scope", ["party", "union"])
def test_nobody_is_worse_off_and_certificates_are_true(scope: str) -> None:
    for seed in range(2):
        X, y = breast_cancer(567, seed)
        settings = {"learner": regression(), "scope": scope}
        study = simulate(X, y, owners=np.arange(567) % 3, settings=settings, random_state=seed,
                         pooled=False)  # fmt: skip
        frame = study.to_frame()
        assert (frame["together"] <= frame["alone"]).all()
        assert frame["together"].mean() < 0.97 * frame["alone"].mean()
        assert not any(record["false"] for record in study.certificates)


@pytest.mark.claim("24.09")
def test_a_blind_learner_leaves_a_uniform_sample() -> None:
    # 200 items, labels wrong on the 90 hardest, the learner asks for the 60 hardest
    rng = np.random.default_rng(0)
    wrong = np.arange(200) < 90
    blind, avoiding = [], []
    for _ in range(2000):
        order = rng.permutation(200)
        population = np.arange(200) >= 60
        blind.append(int(wrong[order[population[order]][:30]].sum()))
        # 30 were checked before; the learner takes the hardest that were not
        checked = set(order[:30].tolist())
        learned = [x for x in range(200) if x not in checked][:60]
        rest = np.setdiff1d(np.arange(200), learned)
        avoiding.append(int(wrong[[x for x in order[:30] if x in rest]].sum()))
    expected = stats.hypergeom(140, 30, 30)
    counts = np.bincount(blind, minlength=31)
    cells = [range(0, 4), *([k] for k in range(4, 10)), range(10, 31)]
    seen = np.array([counts[list(cell)].sum() for cell in cells])
    p = np.array([expected.pmf(list(cell)).sum() for cell in cells])
    assert stats.chisquare(seen, 2000 * p / p.sum()).pvalue > 0.001
    assert np.mean(blind) == pytest.approx(30 * 30 / 140, abs=0.15)
    assert np.mean(avoiding) > 12  # twice what a uniform sample would have


@pytest.mark.claim("24.09")
@pytest.mark.parametrize("scope", ["party", "union"])
def test_the_campaign_learns_the_same_whatever_is_checked(scope: str) -> None:
    # same first questions and models, other audit orders: of two learning paths one is the
    # beginning of the other, and vectors frozen at the same place are the same
    paths, frozen = [], []
    for shift in range(6):
        campaign, _, y = three_clinics(150, 3, scope=scope)
        state = campaign._state
        keys = state.keys
        state.keys = lambda party, keys=keys, shift=shift: np.roll(keys(party), 11 * shift)  # type: ignore[method-assign]
        finish(campaign, y)
        joint = state.joint
        assert joint is not None
        paths.append([list(s.run.learned.items()) for s in joint.shadows.values()])
        first = [vectors[0] for _, vectors in sorted(joint.vectors.items())]
        frozen.append([dict(zip(v.items.tolist(), v.labels.tolist())) for v in first])
    longest = [max((path[i] for path in paths), key=len) for i in range(3)]
    assert all(path[i] == longest[i][: len(path[i])] for path in paths for i in range(3))
    assert len({len(path[i]) for path in paths for i in range(3)}) > 1  # the stop does depend on it
    assert all(one == frozen[0] for one in frozen)


@pytest.mark.claim("24.12")
@pytest.mark.parametrize("interleaved", [False, True])
def test_order_of_arrival_does_not_matter(interleaved: bool) -> None:
    paths = set()
    for permutation in range(20):
        rng = np.random.default_rng(permutation)
        campaign, _, y = three_clinics(120, 1, scope="union")
        path = []
        while questions := campaign.ask(1000):
            if not interleaved:  # party by party, permuted inside
                questions = [q for name in campaign._state.names for q in rng.permutation(
                    np.array([q for q in questions if q.party == name], dtype=object))]  # fmt: skip
            else:
                questions = list(rng.permutation(np.array(questions, dtype=object)))
            for question in questions:
                campaign.tell(question, y[question.item])
            path.append((campaign.digest(), tuple(q.id for q in campaign.ask(1000))))
        paths.add(tuple(path))
    assert len(paths) == 1


@pytest.mark.claim("24.16")
@pytest.mark.parametrize("part", range(5))
def test_coin_flips_are_not_explained_away(part: int) -> None:
    """No model is right, and the campaign does not pretend."""
    missed = 0
    for seed in range(20 * part, 20 * part + 20):
        rng = np.random.default_rng(seed)
        X, flips = rng.normal(size=(120, 2)), rng.integers(0, 2, 120)
        campaign = Campaign(X, owners=np.arange(120) % 2, classes=[0, 1], learner=GaussianNB(),
                            scope="union", random_state=seed)  # fmt: skip
        finish(campaign, flips)
        result = campaign.result()
        assert (result.answers > 0).mean() >= 0.8
        missed += (result.labels != flips).mean() > 0.05
        assert (result.score[result.answers == 0] < 1).all()
    assert missed <= 1  # 5 of 100, in parts of 20


@pytest.mark.claim("24.17")
def test_no_answer_is_overwritten_silently() -> None:
    """With noise, disputes are listed and adjudicated answers stand."""
    X, y = breast_cancer(150, 2)
    campaign = Campaign(X, owners=np.arange(150) % 3, classes=[0, 1], learner=GaussianNB(),
                        max_error=0.1, noise=0.15, scope="union", random_state=2)  # fmt: skip
    oracle = attached(y, 2, 0.15, 2)
    told: dict[int, list[int]] = {}
    while questions := campaign.ask(1000):
        for q in questions:
            code = oracle(campaign._state.names.index(q.party), q.item, q.kind, q.repeat)
            told.setdefault(q.item, []).append(code)
            campaign.tell(q, code, labeler=f"w{q.repeat}")
    result = campaign.result()
    for item, codes in told.items():
        differs = any(code != result.labels[item] for code in codes)
        assert differs == (item in result.disputed)
    joint = campaign._state.joint
    assert joint is not None
    fixed = joint.fixed()
    assert (fixed >= 0).sum() > 20
    assert (result.labels[fixed >= 0] == fixed[fixed >= 0]).all()
    assert "first to 4" in result.summary()
    frame = campaign.work().to_frame()
    assert (frame["asked"] <= frame["alone_at_least"]).all()
    assert "approximately" in campaign.reliability().summary()


@pytest.mark.claim("24.19")
def test_real_tables_run_to_the_end() -> None:
    """Frames with a column transformer, no classes_, sparse texts."""
    rng = np.random.default_rng(0)
    n = 90
    frame = pd.DataFrame({"age": rng.normal(size=n), "city": rng.choice(["Bonn", "Rom"], n)})
    frame.index = pd.Index([f"row {i}" for i in range(n)])
    y = np.where(frame["age"] > 0, "old", "young")
    encode = make_column_transformer((OneHotEncoder(), ["city"]), (StandardScaler(), ["age"]))
    campaign = Campaign(frame, owners=["a", "b", "c"] * 30, classes=["old", "young"],
                        learner=make_pipeline(encode, LogisticRegression()), max_error=0.1,
                        scope="union", random_state=0)  # fmt: skip
    result = finish(campaign, y).result()
    assert result.certificates
    assert list(result.to_frame().index) == list(frame.index)
    words = ["good fine", "bad poor"]
    texts = [f"{words[i % 2]} thing number {i}" for i in range(80)]
    sparse = TfidfVectorizer().fit_transform(texts)
    labels = np.arange(80) % 2
    campaign = Campaign(sparse, owners=[[*range(40)], [*range(30, 80)]], classes=[0, 1],
                        learner=RidgeClassifier(), max_error=0.1, random_state=0)  # fmt: skip
    assert (finish(campaign, labels).result().labels == labels).mean() >= 0.9


class NoClasses(GaussianNB):
    """A model that does not say which classes it knows."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> NoClasses:
        super().fit(X, y)
        self.known_ = self.classes_
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        self.classes_ = self.known_
        found = super().predict_proba(X)
        del self.classes_
        return found


def test_models_without_classes_and_default_learner_work() -> None:
    campaign, _, y = three_clinics(90, 0, learner=NoClasses(), scope="union")
    assert finish(campaign, y).result().certificates
    frame = pd.DataFrame({
        "note": [f"patient number {i} is {'well and fine' if i % 2 else 'ill and weak'}"
                 for i in range(90)],
        "age": [None if i % 7 == 0 else float(i) for i in range(90)],
        "ward": pd.Categorical(["x", "y", None] * 30),
    })  # fmt: skip
    campaign = Campaign(frame, owners=["a"] * 45 + ["b"] * 45, classes=["ill", "well"],
                        max_error=0.1, scope="union", random_state=1)  # fmt: skip
    truth = np.where(np.arange(90) % 2 == 1, "well", "ill")
    assert (finish(campaign, truth).result().labels == truth).mean() >= 0.9


@pytest.mark.claim("24.27")
def test_parties_with_different_classes() -> None:
    for seed in range(2):
        X, y = digits(1797, seed)
        groups = ([0, 1, 2, 3], [4, 5, 6], [7, 8, 9])
        keep = np.concatenate([np.flatnonzero(np.isin(y, group))[:250] for group in groups])
        settings = {"learner": regression(), "scope": "union"}
        study = simulate(X[keep], y[keep], owners=np.repeat(["a", "b", "c"], 250),
                         settings=settings, random_state=seed, pooled=False)  # fmt: skip
        frame = study.to_frame()
        assert (frame["together"] <= frame["alone"]).all()
        assert frame["together"].sum() <= 0.65 * frame["alone"].sum()


@pytest.mark.claim("24.28")
def test_overlap_gives_free_answers() -> None:
    work: dict[str, list[int]] = {"any": [], "own": []}
    for seed in range(20):
        X, y = breast_cancer(120, seed)
        shared = list(range(36))
        owners = {"a": [*shared, *range(36, 78)], "b": [*shared, *range(78, 120)]}
        for free in ("any", "own"):
            campaign = Campaign(X, owners=owners, classes=[0, 1], learner=GaussianNB(),
                                max_error=0.1, free=free, random_state=seed)  # fmt: skip
            finish(campaign, y)
            frame = campaign.work().to_frame()
            work[free].append(int(frame["asked"].sum()))
            assert (frame["asked"] <= frame["alone_at_least"]).all()
            assert (frame["free"].sum() > 0) == (free == "any")
    assert np.mean(work["any"]) < np.mean(work["own"])


@pytest.mark.claim("24.30")
def test_skipped_checks_certify_nothing() -> None:
    campaign, _, y = three_clinics(90, 0, scope="union")
    while questions := campaign.ask(1000):
        for q in questions:
            campaign.tell(q, "skip" if q.kind == "audit" else y[q.item])
    result = campaign.result()
    joint = campaign._state.joint
    assert joint is not None
    for vectors in joint.vectors.values():
        assert not any(v.checked and v.is_certified() for v in vectors)
    assert sum(v.checked for vectors in joint.vectors.values() for v in vectors) > 20
    # certificates come from learning answers alone, when everything that counts was labelled
    for certificate in result.certificates.values():
        assert certificate.wrong == certificate.checked
        assert (result.answers > 0).all()
    assert "a skipped check counts as a wrong label" in result.summary()


@pytest.mark.claim("24.31")
@pytest.mark.parametrize("flips", [0.08, 0.12])
def test_stress_with_labels_no_model_can_know(flips: float) -> None:
    false = total = 0
    for seed in range(3):
        X, y = breast_cancer(180, seed)
        rng = np.random.default_rng(seed)
        y = np.where(rng.random(180) < flips, 1 - y, y)
        settings = {"learner": GaussianNB(), "scope": "union" if seed % 2 else "party"}
        study = simulate(X, y, owners=np.arange(180) % 3, settings=settings, random_state=seed,
                         pooled=False)  # fmt: skip
        frame = study.to_frame()
        assert (frame["together"] <= frame["alone"]).all()
        false += sum(record["false"] for record in study.certificates)
        total += len(study.certificates)
    assert false <= total * 0.05 + 3 * (0.05 * 0.95 * total) ** 0.5


def test_asking_again_gives_the_same_questions() -> None:
    campaign, _, _ = three_clinics()
    first = campaign.ask(8)
    assert campaign.ask(8) == first
    assert len({q.party for q in first}) == 3  # all parties have something to do
    only = campaign.ask(100, party="party 1")
    assert {q.party for q in only} == {"party 1"}


def test_one_party_is_alone() -> None:
    X, y = breast_cancer(120, 0)
    campaign = Campaign(X, owners=["a"] * 120, classes=[0, 1], learner=GaussianNB(), random_state=0)
    finish(campaign, y)
    assert "one party: together is alone" in campaign.work().summary()
    frame = campaign.work().to_frame()
    assert frame["asked"].tolist() == frame["alone_at_least"].tolist()


def test_known_labels_cost_nothing_and_are_in_no_population() -> None:
    X, y = breast_cancer(150, 0)
    known = {i: int(y[i]) for i in range(0, 150, 5)}
    campaign = Campaign(X, owners=np.arange(150) % 3, classes=[0, 1], learner=GaussianNB(),
                        max_error=0.1, known=known, scope="union", random_state=0)  # fmt: skip
    finish(campaign, y)
    assert not any(q.item in known for q in campaign._questions.values())
    joint = campaign._state.joint
    assert joint is not None
    for vectors in joint.vectors.values():
        assert not any(set(v.items.tolist()) & set(known) for v in vectors)
    frame = campaign.work().to_frame()
    assert (frame["asked"] <= frame["alone_at_least"]).all()
    assert campaign.result().source[0] == "known"


def test_a_class_that_nobody_answered_is_named() -> None:
    X, y = breast_cancer(90, 0)
    campaign = Campaign(X, owners=np.arange(90) % 2, classes=[0, 1, "unclear"], max_error=0.1,
                        learner=GaussianNB(), random_state=0)  # fmt: skip
    assert "nobody answered" not in campaign.result().summary()  # nobody was asked
    finish(campaign, y)
    told = "nobody answered 'unclear', so the model never gives it; if there are such items"
    assert told in campaign.result().summary()


def test_reports_have_pictures() -> None:
    campaign, _, y = three_clinics()
    for q in campaign.ask(9):
        campaign.tell(q, y[q.item])
    assert campaign.status().plot().get_ylabel() == "questions"
    assert len(campaign.status().plot().patches) == 6
    finish(campaign, y)
    axes = campaign.result().plot()
    assert axes.get_xlabel() == "wrong labels (%)"
    assert [t.get_text() for t in axes.get_yticklabels()] == list(campaign.result().certificates)


def test_expected_saving_is_an_estimate_and_says_so() -> None:
    campaign, _, y = three_clinics()
    for q in campaign.ask(1000):
        campaign.tell(q, y[q.item])
    report = campaign.work(estimate=True)
    assert all(p.expected_saving is not None for p in report.parties)
    assert "estimated saving" in report.summary()


def test_status_does_not_tell_the_checks() -> None:
    campaign, _, y = three_clinics()
    finish(campaign, y)
    words = campaign.status().summary() + str(campaign.status())
    assert "audit" not in words
    assert "check" not in words
    assert "audit" not in repr(next(iter(campaign._questions.values())))


def test_stake_allows_checks_outside_the_core() -> None:
    plain, _, y = three_clinics(150, 5)
    staked, _, _ = three_clinics(150, 5, stake=10)
    finish(plain, y)
    finish(staked, y)
    for account in staked.work().parties:
        assert account.asked <= account.alone_at_least + 10
    assert all(p.outside_core == 0 for p in plain.work().parties)


def test_sentences_for_bad_input() -> None:
    X, _ = breast_cancer(60, 0)
    plain = {"owners": ["a"] * 30 + ["b"] * 30, "classes": ["benign", "malignant"]}
    with pytest.raises(InvalidInputError, match="row 17 has no owner; give every row an owner"):
        Campaign(X, owners=["a"] * 17 + [None] + ["b"] * 42, classes=[0, 1])
    campaign = Campaign(X, **plain, max_error=0.1, random_state=0)
    q = campaign.ask(1)[0]
    with pytest.raises(InvalidInputError, match="'bening' is not a class of this campaign; did you "
                                                "mean 'benign'"):  # fmt: skip
        campaign.tell(q, "bening")
    with pytest.raises(InvalidInputError, match="question q999 was not asked"):
        campaign.tell("q999", "benign")
    campaign.tell(q, "benign", labeler="w1")
    with pytest.raises(InvalidInputError, match="was answered 'benign' by w1; retract it first"):
        campaign.tell(q, "benign")
    other = campaign.ask(2)[1]
    with pytest.raises(InvalidInputError, match=r"belongs to '[ab]', not to '[ab]'"):
        campaign.tell(other, "benign", party="a" if other.party == "b" else "b")
    with pytest.raises(InvalidInputError, match="owners must map each party to a list of its rows"):
        Campaign(X, owners={"a": 1}, classes=[0, 1])
    with pytest.warns(AssumptionWarning, match="all pools together have 15 items: at most 5 % wro"):
        Campaign(X[:15], owners=["a", "b", "c"] * 5, classes=[0, 1], scope="union")
    with pytest.warns(AssumptionWarning, match="pool 'a' has 12 items: at most 5 % wrong means no"):
        Campaign(X[:52], owners=["a"] * 12 + ["b"] * 40, classes=[0, 1])
    with pytest.raises(
        InvalidInputError, match="with 15 % wrong answers a single answer cannot sho"
    ):
        Campaign(X, **plain, noise=0.15, first_to=1)
    with pytest.raises(InvalidInputError, match=r"use first_to=4 \(error of .* answer 1.2 %\)"):
        Campaign(X, **plain, noise=0.15, first_to=1)
    with pytest.raises(InvalidInputError, match="neither predict_proba nor decision_function"):
        Campaign(X, **plain, learner=Perceptive())


class Perceptive:
    """A learner that gives labels and nothing else."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> Perceptive:
        return self


def test_a_learner_that_fails_loses_no_answer() -> None:
    X, y = breast_cancer(60, 0)
    X = X.copy()
    X[:, 0] = np.nan
    campaign = Campaign(X, owners=np.arange(60) % 2, classes=[0, 1], learner=LogisticRegression(),
                        max_error=0.1, random_state=0)  # fmt: skip
    for q in campaign.ask(1000):
        campaign.tell(q, y[q.item])
    for _ in range(2):
        with pytest.raises(InvalidInputError, match="fitting the learner on 20 answers failed: "):
            campaign.ask()
    assert len(campaign._answered) == 40


def test_spare_changes_what_alone_means() -> None:
    assert TestFirstSolo(spare=0).checks(189, max_error=0.05, alpha=0.05) < TestFirstSolo().checks(
        189, max_error=0.05, alpha=0.05
    )
    campaign, _, _ = three_clinics(solo=TestFirstSolo(spare=0))
    assert "spare=0" in campaign.work().summary()
