"""Points travel as JSON: exact when honest, refused in one sentence when not."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from contribution.sites.worlds import clinics, measured, three_sites
from counterplay.contribution import SitePoints, plan_consortium
from counterplay.contribution.sites.own_curve import own_points
from counterplay.errors import CounterplayError, InvalidInputError


@pytest.mark.claim("23.11")
def test_the_round_trip_changes_no_digit(tmp_path: Path) -> None:
    points = measured()
    path = tmp_path / "points.json"
    points.to_json(path)
    read, again = SitePoints.from_json(path), SitePoints.from_json(path)
    plan = plan_consortium(read, "within=0.03")
    direct = plan_consortium(three_sites(), "within=0.03", budget=80, verify=0, progress=False)
    for name in ("cheapest", "compensated", "envy_free", "left_alone"):
        one, two = plan.plans[name], direct.plans[name]
        assert one.rows.equals(two.rows)
        assert one.cost == two.cost
        assert one.probability.equals(two.probability)
    assert plan.ray.share == plan_consortium(again, "within=0.03").ray.share
    assert read.held_out is None
    assert set(plan.share.basis) == {"modelled"}


@pytest.mark.claim("23.32")
def test_hostile_points_are_refused_or_harmless() -> None:
    honest = json.loads(SitePoints.parse(measured().to_json()).to_json())
    honest["points"] = honest["points"][::12]
    expected = SitePoints.parse(json.dumps(honest))
    rng = np.random.default_rng(0)
    junk = [None, True, -1, 1e400, float("nan"), "x", [], {}, 2**60, "\ud800", 10**30, {"a": 1},
            "<script>", "a\nb", "../x", 1.5, 0, [[[]]]]  # fmt: skip
    refused = longest = 0
    for _ in range(200):
        content = json.loads(json.dumps(honest))
        target: object = content
        for _ in range(int(rng.integers(1, 4))):
            if isinstance(target, dict) and target:
                key: object = list(target)[int(rng.integers(len(target)))]
            elif isinstance(target, list) and target:
                key = int(rng.integers(len(target)))
            else:
                break
            if not isinstance(target[key], dict | list) or rng.random() < 0.4:  # type: ignore[index]
                target[key] = junk[int(rng.integers(len(junk)))]  # type: ignore[index]
                break
            target = target[key]  # type: ignore[index]
        text = json.dumps(content)
        if rng.random() < 0.2:
            cut = int(rng.integers(1, len(text)))
            text = text[:cut] + text[cut + 3 :]
        try:
            points = SitePoints.parse(text)
        except CounterplayError as error:
            refused += 1
            longest = max(longest, len(str(error)))
            continue
        assert points.metric in ("accuracy", expected.metric)
        assert np.isfinite(points.score).all()
    assert refused > 100
    assert longest <= 300


def test_what_is_refused_says_where(tmp_path: Path) -> None:
    base = json.loads(measured().to_json())
    base["points"] = base["points"][:3]

    def refused(change: object, message: str) -> None:
        content = json.loads(json.dumps(base))
        change(content)  # type: ignore[operator]
        with pytest.raises(InvalidInputError, match=message):
            SitePoints.parse(json.dumps(content), "north.json")

    refused(lambda c: c.update(format="other/1"), "north.json cannot be used: format")
    refused(lambda c: c["points"][1].update(score=None), r"points\[1\].score")
    refused(lambda c: c["points"][2]["rows"].update(a=9999), r"points\[2\].rows: 9999 rows of a")
    refused(lambda c: c["points"][0].update(site="nobody"), r"points\[0\].site")
    refused(lambda c: c.update(extra=1), "extra")
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    one.write_text(json.dumps(base))
    two.write_text(json.dumps(base | {"metric": "roc_auc"}))
    with pytest.raises(InvalidInputError, match=r"two\.json.*metric"):
        SitePoints.from_json(one, two)


def test_sites_that_send_only_their_own_curves(tmp_path: Path) -> None:
    files = []
    for name, frame in clinics((120, 90)).items():
        table = tmp_path / f"{name}.csv"
        frame.to_csv(table, index=False)
        points = own_points(table, "y", ["another"], progress=False)
        assert points.held_out is None
        files.append(tmp_path / f"{name}.json")
        points.to_json(files[-1])
        assert "ward" not in files[-1].read_text()
    together = SitePoints.from_json(*files)
    assert together.owned.tolist() == [120, 90]
    assert together.axes_only
    plan = plan_consortium(together, "within=0.03")
    text = plan.summary()
    assert "no mixture of sites was tried" in text
    assert "nothing was measured about what rows of" in text
    assert "no common share was measured" in text or plan.recommended != "share"
    with pytest.raises(InvalidInputError, match="must be different"):
        own_points(tmp_path / "clinic 0.csv", "y", ["clinic 0"], progress=False)


def test_points_draw_and_tell() -> None:
    points = measured()
    assert points.plot(site="b") is not None
    assert points.plot_raw() is not None
    assert "80 fits" in points.summary()
    assert set(points.to_frame().columns) >= {"site", "score", "test_rows", "ray", "a", "b", "c"}
