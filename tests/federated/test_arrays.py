from __future__ import annotations

import numpy as np
import pytest

from counterplay.federated.arrays import flushed_subnormals, subnormals_kept


def test_subnormal_numbers_are_restored() -> None:
    torch = pytest.importorskip("torch")
    assert subnormals_kept()
    with flushed_subnormals(torch):
        if subnormals_kept():
            pytest.skip("this processor cannot switch subnormal numbers off")
        with flushed_subnormals(torch):
            pass
        assert not subnormals_kept()  # the mode before the inner block
    assert subnormals_kept()
    with pytest.raises(ZeroDivisionError), flushed_subnormals(torch):
        raise ZeroDivisionError
    assert subnormals_kept()
    assert np.array([1e-310]).sum() > 0
