"""Parameters the scikit-learn way (``get_params``, ``set_params``), without its data contract.

Elicitors are configured like estimators but fitted to a person, not to ``X`` and ``y``.
"""

from __future__ import annotations

import inspect
from typing import Any, Self

from counterplay.errors import UnknownNameError


class Parameterised:
    """Everything given to ``__init__`` is stored under its name and can be read and changed."""

    @classmethod
    def _parameter_names(cls) -> list[str]:
        return list(inspect.signature(cls).parameters)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; ``deep`` is accepted for scikit-learn."""
        return {name: getattr(self, name) for name in self._parameter_names()}

    def set_params(self, **params: Any) -> Self:
        """Change parameters; takes effect for the next session."""
        for name, value in params.items():
            if name not in self._parameter_names():
                raise UnknownNameError.among("parameter", name, self._parameter_names())
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        changed = []
        for name, parameter in inspect.signature(type(self)).parameters.items():
            value = getattr(self, name)
            if name == "source":
                if value is not None:
                    changed.append(_brief(value))
            elif value is not parameter.default and value != parameter.default:
                changed.append(f"{name}={value!r}")
        return f"{type(self).__name__}({', '.join(changed)})"


def _brief(source: Any) -> str:
    text = repr(source)
    return text if len(text) <= 200 and " at 0x" not in text else f"<{type(source).__name__}>"
