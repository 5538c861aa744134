"""The reference, as the site renders it: every argument is described, with the default that Python has."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe
import pytest

import unmask
from unmask.options import VERBS

ROOT = Path(__file__).parents[2]
ERRORS = {"InputError", "ModelError", "UnmaskError"}
CALLED = sorted(name for name in unmask.__all__ if callable(getattr(unmask, name)) and name not in ERRORS)
MORE = ["MaskedLM.load", "MaskedLM.of", "Tables.from_conditionals"]
"""Other ways to make the building blocks."""
NOTHING = (None, (), 0, "all")
"""Defaults that words explain."""


@pytest.fixture(scope="module")
def site() -> griffe.Module:
    [listed] = re.findall(r"extensions: \[(.*)\]", (ROOT / "mkdocs.yml").read_text())
    extensions = griffe.load_extensions(*(str(ROOT / one) if "/" in one else one for one in listed.split(", ")))
    return griffe.load("unmask", search_paths=[ROOT / "src"], extensions=extensions)


def target(site: griffe.Module, name: str) -> Any:
    found: Any = site
    for part in name.split("."):
        found = found[part]
        found = found.final_target if found.is_alias else found
    return found


def described(markdown: str) -> Iterator[tuple[str, str, str]]:
    """The rows of a docstring's tables: name, meaning, default."""
    for line in markdown.splitlines():
        if line.startswith("| `"):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            for name in cells[0].replace("`", "").split(", "):
                yield name, cells[1], cells[2] if len(cells) > 2 else ""


def wrong(markdown: str, signature: inspect.Signature, name: str) -> list[str]:
    """Arguments that are not described, or whose default is not the signature's."""
    rows, found = {row: (meaning, default) for row, meaning, default in described(markdown)}, []
    for parameter in signature.parameters.values():
        meaning, shown = rows.get(parameter.name, ("", ""))
        default, of_class = parameter.default, name[0].isupper() and "." not in name
        variadic = parameter.kind is inspect.Parameter.VAR_KEYWORD
        if not meaning:
            found.append(f"{parameter.name} is not described")
        elif default is inspect.Parameter.empty:
            found += (
                [] if shown == ("" if of_class or variadic or "." in name else "required") else [f"{parameter.name} has {shown}"]
            )
        elif "factory" not in repr(default) and "." not in name:
            written = default.__name__ if isinstance(default, type) else repr(default)
            plain = (
                ",".join(f"{one:g}" for one in default) if isinstance(default, tuple) and name != "derive_all" else str(default)
            )
            words = not shown.startswith("`") and (default in NOTHING or name == "derive_all")
            found += [] if shown in (f"`{written}`", plain) or words and shown else [f"{parameter.name} has {shown}"]
    return found


@pytest.mark.parametrize("name", [*CALLED, *MORE])
def test_every_argument_is_described_with_its_default(site, name):
    value: Any = unmask
    for part in name.split("."):
        value = getattr(value, part)
    assert wrong(target(site, name).docstring.value, inspect.signature(value), name) == []


@pytest.mark.parametrize("name", CALLED)
def test_the_signature_on_the_site_is_the_one_in_python(site, name):
    obj, signature = target(site, name), inspect.signature(getattr(unmask, name))
    shown = {one.name: one for one in obj.parameters if one.name != "self"}
    assert list(shown) == list(signature.parameters)
    for parameter in signature.parameters.values():
        if parameter.default is not inspect.Parameter.empty and "factory" not in repr(parameter.default):
            known = {"str": str}
            assert eval(str(shown[parameter.name].default), {"__builtins__": known}) == parameter.default
        assert str(shown[parameter.name].annotation) == str(parameter.annotation)
    if not isinstance(getattr(unmask, name), type):
        assert str(obj.returns) == str(signature.return_annotation)


def test_functions_of_one_text_or_many_show_both(site):
    assert str(target(site, "mutants").returns) == "Mutants | Measured | list[Mutants | Measured]"
    assert str(target(site, "mutants").parameters["sequence"].annotation) == "str | Sequence[str]"


def test_what_is_left_out_or_changed_is_found(site):
    said, signature = target(site, "fill").docstring.value, inspect.signature(unmask.fill)
    assert wrong(re.sub(r"\n\| `top` .*", "", said), signature, "fill") == ["top is not described"]
    assert wrong(re.sub(r"(\n\| `top` .*)\| 10 \|", r"\1| 12 |", said), signature, "fill") == ["top has 12"]
    assert wrong(re.sub(r"(\n\| `text` .*)\| required \|", r"\1|  |", said), signature, "fill") == ["text has "]


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "lab"])
def test_readers_of_the_source_are_told_where_the_arguments_are(verb):
    source = inspect.getsource(inspect.unwrap(getattr(unmask, verb)))
    assert f"\n    Arguments: help(unmask.{verb})\n" in source
    assert "Arguments: help(" not in getattr(unmask, verb).__doc__


def test_arguments_have_their_names_in_python(site):
    for verb in VERBS:
        if verb != "lab":
            for name, meaning, default in described(target(site, verb).docstring.value):
                assert "--" not in re.sub(r"`[^`]*`", "", f"{meaning} {default}"), (verb, name)
