"""Random numbers by position instead of by order; see :mod:`counterplay.core.draws`."""

from counterplay.core.draws import Keys, fold, mix, normals, run_keys, uniforms

__all__ = ["Keys", "fold", "mix", "normals", "run_keys", "uniforms"]
