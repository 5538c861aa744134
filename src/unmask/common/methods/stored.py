"""A method as the settings of a run keep it, and back.

    ours    {"name": "block", "block_size": 2}
    own     {"name": "uniform", "code": "my.py:Uniform", "sha256": "...", "strength": 2.0}

Settings never load code. A run with an own method goes on where the user names the code again and
the hash is that of before: the settings are then equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, cast

from unmask.common.errors import InputError
from unmask.common.methods.method import Method
from unmask.common.methods.own_code import code_of, is_ours
from unmask.common.methods.registry import Registry

CODE = ("code", "sha256")


def stored_form(method: Method) -> dict[str, Any]:
    """The method for settings: its name, for own code the file's name and the hash, its options."""
    stored: dict[str, Any] = {"name": method.name}
    if not is_ours(type(method)):
        stored |= code_of(type(method)).stored
    return {**stored, **asdict(cast(Any, method))}


def from_stored(registry: Registry, stored: Mapping[str, Any]) -> Any:
    """The method of stored settings, if it is one of ours.

    Raises InputError for own code, which a stored setting never loads.
    """
    values = dict(stored)
    name = values.pop("name")
    if "code" in values or name not in registry:
        named = values.get("code", name)
        raise InputError(
            f"{registry.kind} {named} is code of its user, which no stored setting loads: give it"
            " again where the run was started"
        )
    return registry[name](**values)
