"""Options of `serve`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from unmask.options.kinds import Files, Flag, Text, Whole
from unmask.options.option import option
from unmask.options.shared import Loaded


@dataclass(frozen=True)
class ServeOptions(Loaded):
    """Options of `serve`."""

    examples = ("unmask serve --open-browser", "unmask serve --model bert-base-cased --port 8080 --runs table --runs samples")
    python_only = {"ready": "Called with the page's address once it can be opened; otherwise the address is printed."}
    host: str = option("127.0.0.1", Text(), "Where to listen; there is no password.")
    port: int = option(8000, Whole(0, 65535), "Of the page; 0 takes a free one.")
    runs: Sequence[Any] = option((), Files(), "Folder of a finished evaluate or sample run.")
    open_browser: bool = option(False, Flag(), "Open the page in the default browser.")
