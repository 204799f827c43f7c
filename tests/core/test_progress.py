"""Progress passes items through, writes to standard error only, and is silent when told so."""

import pytest

from counterplay.core.progress import progress_bar, track


@pytest.mark.parametrize("enabled", [True, False])
def test_items_come_through_in_order(enabled: bool, capsys: pytest.CaptureFixture[str]) -> None:
    assert list(track(range(5), "counting", enabled=enabled)) == [0, 1, 2, 3, 4]
    captured = capsys.readouterr()
    assert captured.out == ""
    assert ("counting" in captured.err) == enabled


def test_iterators_with_a_known_total(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(track(iter("abc"), "letters", total=3)) == ["a", "b", "c"]
    assert "3/3" in capsys.readouterr().err


def test_bar_with_own_task(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar() as bar:
        task = bar.add_task("cells", total=2)
        bar.advance(task, 2)
    assert "2/2" in capsys.readouterr().err


def test_a_notebook_gets_text_and_no_widgets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    with progress_bar() as bar:
        assert not bar.console.is_jupyter
