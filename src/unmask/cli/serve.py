"""The command `serve`."""

from __future__ import annotations

from typing import Any

from unmask.cli import process


def serve(given: dict[str, Any]) -> None:
    """Serve the page until Ctrl-C."""
    import unmask

    try:
        unmask.serve(**given)
    except KeyboardInterrupt:
        process.leave_now()  # threads that are still in a pass must not hold the process
