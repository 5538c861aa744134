"""All calls, as data. To add one, add an entry to the list of its kind.

A call says everything that decides its result:

    {"name": "fill/words/pair/chain", "verb": "fill", "arguments": {...}}

A verb is a public function of unmask, or a method `do_VERB` of an adapter. Arguments are JSON. An
object is a mapping with a mark:

    {"$model": "words"}                    a model of the materials; bundled: the one of unmask
    {"$file": "table.csv"}                 a file of the materials
    {"$out": "run"}                        a path that the call writes to
    {"$method": "Block", "block_size": 3}  an object of a public class
    others                                 see the methods `mark_...` of `adapters.Names57`

Names and options are those of the end of issue 57. Numbers that unmask would choose by the machine
or the clock are given.
"""

from __future__ import annotations

from typing import Any

Call = dict[str, Any]


def all_calls() -> list[Call]:
    """Every call, in the order in which they are made."""
    from same.calls import (
        bundled,
        commands,
        joints,
        models,
        page,
        sampling,
        scoring,
        studies,
        texts,
    )

    modules = (joints, models, texts, scoring, sampling, studies, page, bundled, commands)
    calls = [call for module in modules for call in module.calls()]
    names = [call["name"] for call in calls]
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"two calls have the name {twice[0]}")
    return calls


def call(name: str, verb: str, **arguments: Any) -> Call:
    """A call; its name begins with what it is a call of, with slashes between parts."""
    return {"name": name, "verb": verb, "arguments": arguments}


def model(name: str, **options: Any) -> Call:
    """A model of the materials."""
    return {"$model": name, **options}


def file(name: str) -> Call:
    """A file of the materials."""
    return {"$file": name}


def out(name: str) -> Call:
    """A path that a call writes to."""
    return {"$out": name}


def method(name: str, **options: Any) -> Call:
    """An object of a public class."""
    return {"$method": name, **options}
