"""How the page writes the arguments that a message names: as the keys of its requests."""

from __future__ import annotations

IN_JSON = {"True": "true", "False": "false"}
NOT_IN_REQUESTS = {"force": "--force on the command line"}
"""Arguments that messages suggest and no request has: work without a limit is not the page's."""


def in_request(name: str, value: str | None) -> str:
    """An argument as a message of the page names it: `top`, or with a value `top: 5`, since the
    request has `"top": 5`.
    """
    if name in NOT_IN_REQUESTS:
        return NOT_IN_REQUESTS[name]
    if value is None:
        return name
    return f"{name}: {IN_JSON.get(value, value)}"
