"""What a round is made of: the share of mining and of all else that is not training, on the embedded sample.

python -m benchmarks.round
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import reliant

_SETS = ["initial.passes=4", "rounds.count=1"]


def main() -> dict[str, Any]:
    """Seconds of every stage of one round of ``demo``; its lengths but the initialisation's are the preset's own."""
    with tempfile.TemporaryDirectory() as folder:
        run = reliant.fit("fashion-mnist-sample", Path(folder) / "run", preset="demo", sets=_SETS)
        events = run.folder.events()
    seconds = {event["stage"]: event["seconds"] for event in events if event["kind"] == "stage-finished"}
    training = sum(value for stage, value in seconds.items() if "/learners/" in stage)
    other = sum(value for stage, value in seconds.items() if stage.startswith("rounds/01/") and "/learners/" not in stage)
    parts = {stage: round(value, 2) for stage, value in seconds.items() if stage.startswith("rounds/01/")}
    return {"share_not_training": round(other / (training + other), 3), "seconds": parts}


if __name__ == "__main__":
    print(json.dumps(main()))
