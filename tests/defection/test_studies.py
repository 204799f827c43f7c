"""The stored results of the CIFAR-10 experiment say what the guide says about them."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterplay.errors import InvalidInputError

ROOT = Path(__file__).parents[2]


def test_stored_cifar10_results_keep_their_verdicts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import cifar10_results

    data = cifar10_results.load_results(ROOT / "docs/results/defection/cifar10.json")
    assert [verdict.holds for verdict in cifar10_results.verdicts(data)] == [True] * 3
    assert len(cifar10_results.table(data)) == len(data["cells"])
    assert {"timeline", "devices", "step-sizes"} <= set(cifar10_results.figures(data))
    other = tmp_path / "other.json"
    other.write_text("{}")
    with pytest.raises(InvalidInputError, match="gpu_defection"):
        cifar10_results.load_results(other)
