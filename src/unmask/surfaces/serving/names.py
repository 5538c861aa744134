"""How the page writes the arguments that a message names: as the keys of its requests."""

from __future__ import annotations

IN_JSON = {"True": "true", "False": "false"}


def in_request(name: str, value: str | None) -> str:
    """`top`, or `top: 5` with its value; the request has `"top": 5`."""
    if value is None:
        return name
    return f"{name}: {IN_JSON.get(value, value)}"
