"""Random numbers by position."""

from __future__ import annotations

import numpy as np

from counterplay.core.draws import fold, normals, run_keys, uniforms


def test_random_numbers_by_position() -> None:
    keys = run_keys(0, 50)
    u = uniforms(keys, 2000)
    assert u.min() >= 0
    assert u.max() < 1
    assert abs(u.mean() - 0.5) <= 5 * np.sqrt(1 / 12 / u.size)
    assert abs(np.corrcoef(u[0], u[1])[0, 1]) < 0.1
    assert (uniforms(keys, 7) == u[:, :7]).all()
    z = normals(keys, 2000)
    assert abs(z.mean()) <= 5 / np.sqrt(z.size)
    assert abs(z.std() - 1) < 0.02
    assert len(np.unique(fold(keys, 1, 2))) == 50
