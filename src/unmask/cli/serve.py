"""`unmask serve`: a page to look at joints, dependence, chains and scores."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unmask.cli import options


def serve(
    model: options.Model = None,
    host: Annotated[str, typer.Option("--host", help="Where to listen; there is no password.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="Of the page; 0 takes a free one.")] = 8000,
    runs: Annotated[
        list[Path] | None,
        typer.Option("--runs", parser=options.path, metavar="PATH", help="Folder of a finished evaluate or sample run; repeat."),
    ] = None,
    open_browser: Annotated[bool, typer.Option("--open-browser", help="Open the page in the default browser.")] = False,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    rename: options.Rename = None,
) -> None:
    """Open a page on this machine that shows joints, dependence, chains and scores of a model."""
    from unmask.cli import process
    from unmask.serving.server import serve

    try:
        serve(
            model=model,
            host=host,
            port=port,
            runs=runs or (),
            open_browser=open_browser,
            device=device,
            dtype=dtype,
            rename=options.read_renames(rename),
        )
    except KeyboardInterrupt:
        process.leave_now()  # threads that are still in a pass must not hold the process
