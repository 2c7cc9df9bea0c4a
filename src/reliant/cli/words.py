"""Numbers in the words of a person: durations, sizes, shares, stages."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

_PARTS = {
    "local": "local",
    "refined": "refinement",
    "refine": "refinement",
    "ranking": "triplets",
    "representation": "choosing",
    "relations": "relations",
    "other-layer": "other layer",
}


def duration(seconds: float) -> str:
    """``50 s``, ``3 min 20 s``, ``2 h 05 min``, ``3 d 4 h``."""
    whole = max(0, round(seconds))
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if whole < 60:
        return f"{whole} s"
    if minutes < 60:
        return f"{minutes} min {whole % 60:02d} s"
    if hours < 48:
        return f"{hours} h {minutes % 60:02d} min"
    return f"{days} d {hours % 24} h"


def size(count: float) -> str:
    """``312 bytes``, ``1.5 MB``; decimal units."""
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count:.0f} bytes"


def percent(share: float | None, digits: int = 1) -> str:
    return "–" if share is None else f"{100 * share:.{digits}f} %"


def number(count: float) -> str:
    """Whole ones with commas, small ones with what matters of them."""
    return f"{count:,.0f}" if count >= 100 or count == round(count) else f"{count:.3g}"


def stage(place: str, learners: int = 0) -> str:
    """``rounds/01/learners/1/local`` → ``round 1 · learner 2 of 5 · local``."""
    parts = list(PurePosixPath(place).parts)
    said = []
    if parts[:2] == ["rounds", "00"] and parts[2:] == ["initial"]:
        return "initialisation"
    if parts[:1] == ["rounds"]:
        said.append(f"round {int(parts[1])}")
        parts = parts[2:]
    if parts[:1] == ["learners"]:
        among = f" of {learners}" if learners else ""
        said.append(f"learner {int(parts[1]) + 1}{among}")
        parts = parts[2:]
    said += [_PARTS.get(part, re.sub(r"view-(\d+)", r"view \1", part)) for part in parts]
    return " · ".join(said)
