"""Figures belong to nobody, except in a notebook, where they are shown below the cell."""

from __future__ import annotations

import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure

from counterplay.core.figures import axes_or_new

INLINE = "module://matplotlib_inline.backend_inline"


def known_to_pyplot(figure: object) -> bool:
    return any(pyplot.figure(number) is figure for number in pyplot.get_fignums())


def in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("IPython")
    monkeypatch.setenv("MPLBACKEND", INLINE)


def test_a_picture_in_a_script_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "Agg")
    assert not known_to_pyplot(axes_or_new(None).figure)


def test_a_picture_in_a_notebook_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    in_a_notebook(monkeypatch)
    pyplot.switch_backend("agg")
    ax = axes_or_new(None, width=5.0, height=3.0)
    assert known_to_pyplot(ax.figure)
    assert tuple(ax.figure.get_size_inches()) == (5.0, 3.0)
    pyplot.close(ax.figure)


def test_axes_that_are_passed_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    in_a_notebook(monkeypatch)
    mine = Figure().subplots()
    assert axes_or_new(mine) is mine
    assert not known_to_pyplot(mine.figure)
