"""The options that several commands have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout; everything else on stderr.", show_default=False)]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only results, warnings and errors.", show_default=False)]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="More messages, and where an error came from.", show_default=False)
]

_SOURCE = "A folder of images, .npy, .npz, .parquet, or a known name such as fashion-mnist-sample."
Source = Annotated[str, typer.Argument(metavar="SOURCE", help=_SOURCE, show_default=False)]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.", show_default=False)]
Seed = Annotated[int | None, typer.Option("--seed", metavar="S", help="Another seed, another draw.", show_default=False)]
