"""Evaluation with labels: protocols (features and labels → scores), and runs scored round by round.

``reliant.evaluate`` names this package and is the function :func:`reliant.evaluate.run.evaluate` at once: Python binds a
package's name in its parent whenever one of its modules is imported, so that the package itself has to answer the call.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    def __call__(self, *arguments: Any, **keys: Any) -> dict[str, Any]:
        from .run import evaluate

        return evaluate(*arguments, **keys)


sys.modules[__name__].__class__ = _Callable
