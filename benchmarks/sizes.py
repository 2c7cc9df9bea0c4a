"""Sizes of files and functions, printed by CI: files above 400 lines and functions above 60 (loops 100) are named.

python benchmarks/sizes.py
"""

from __future__ import annotations

import ast
from pathlib import Path

_FILE, _FUNCTION = 400, 60


def main() -> None:
    root = Path(__file__).parents[1] / "src"
    files = {path: path.read_text(encoding="utf-8") for path in sorted(root.rglob("*.py"))}
    lengths = {path: text.count("\n") for path, text in files.items()}
    print(f"{len(files)} files, {sum(lengths.values())} lines, the longest {max(lengths.values())}")
    for path, length in lengths.items():
        if length > _FILE:
            print(f"  {path.relative_to(root)}: {length} lines, more than {_FILE}")
    for path, text in files.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > _FUNCTION:
                    print(f"  {path.relative_to(root)}:{node.lineno} {node.name}: {length} lines, more than {_FUNCTION}")


if __name__ == "__main__":
    main()
