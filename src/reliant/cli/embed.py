"""``reliant embed``: features of images, with their ids."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import options
from .screen import Screen


def embed(
    run: options.Run,
    source: options.Source,
    out: Annotated[Path, typer.Option(metavar="F", help="F.parquet, F.npy or F.safetensors.", show_default=False)],
    layer: Annotated[str, typer.Option(metavar="final|conv", help="φ itself, or the last conv map, flattened.")] = "final",
    round_: Annotated[
        int | None,
        typer.Option("--round", metavar="N", help="Of this round; the run's result where not given.", show_default=False),
    ] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Write the features of images to a file.

    They are in the order of the source. F.parquet has the columns id, embedding.
    The ids of F.npy and F.safetensors (tensor embedding) go to F.ids.parquet.

    \b
    Examples:
      reliant embed runs/photos photos/ --out photos.parquet
      reliant embed runs/photos new-photos/ --out new.npy --layer conv --round 1
    """
    from ..store.embeddings import check_embeddings_file, write_embeddings
    from ..trained import TrainedRun, check_layer, needs_torch

    screen = Screen(json=json, quiet=quiet, verbose=verbose)
    check_embeddings_file(out)
    check_layer(layer)
    needs_torch()
    trained = TrainedRun(run)
    round_ = trained.round if round_ is None else round_
    trained.weights(round_)  # a round that is not there is said before images are decoded
    images, quarantine = trained.images(source)
    for name, reason in zip(quarantine.ids, quarantine.reasons):
        screen.warn(f"left out: {name}: {reason}")
    screen.note(f"embedding {len(images):,} images with round {round_} of {run}")
    values = trained.embed_images(images, layer, round_)
    files = [str(file) for file in write_embeddings(out, images.ids, values)]
    result = {
        "run": str(run),
        "round": round_,
        "layer": layer,
        "images": len(images),
        "dimension": values.shape[1],
        "files": files,
        "quarantined": [{"id": name, "reason": reason} for name, reason in zip(quarantine.ids, quarantine.reasons)],
    }
    screen.result(result, f"{len(images):,} × {values.shape[1]:,} features in {' and '.join(files)}")
