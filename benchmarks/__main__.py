"""Every benchmark, one after the other, each in a process of its own; the results go to ``benchmarks/results.json``.

make bench
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

_PARTS = ("training", "command", "round", "relations")
_RESULTS = Path(__file__).with_name("results.json")


def main() -> None:
    table: dict[str, Any] = {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": _machine(),
        "commit": _commit(),
    }
    for part in _PARTS:
        print(f"benchmarks.{part} …", flush=True)
        done = subprocess.run([sys.executable, "-m", f"benchmarks.{part}"], capture_output=True, text=True, check=False)
        if done.returncode:
            print(done.stderr, file=sys.stderr)
            raise SystemExit(f"benchmarks.{part} failed")
        table[part] = json.loads(done.stdout)
        print(json.dumps(table[part], indent=1), flush=True)
    _RESULTS.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    print(f"written to {_RESULTS}")


def _machine() -> dict[str, Any]:
    model = next((line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), "")
    return {"cpu": model or platform.processor(), "cores": os.cpu_count(), "python": platform.python_version()}


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


def _commit() -> str:
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip()


if __name__ == "__main__":
    main()
