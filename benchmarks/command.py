"""What starting the command costs: CPU-seconds of ``reliant --help``, and the modules that it must not import.

python -m benchmarks.command
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys

_REPEATS = 7


def main() -> dict[str, object]:
    seconds = []
    for _ in range(_REPEATS + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "reliant", "--help"], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    # The first call may compile bytecode.
    seconds = seconds[1:]
    return {
        "help_cpu_seconds": round(statistics.median(seconds), 3),
        "spread": [round(min(seconds), 3), round(max(seconds), 3)],
    }


if __name__ == "__main__":
    print(json.dumps(main()))
