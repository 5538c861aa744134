"""Arguments of public functions, checked against their annotations before the function runs.

    @checked
    def topk(self, n: int) -> ...: ...         topk("3")          InputError: n '3' is not a whole number: give one such as 3
                                               topk(np.int64(3))  n is the int 3

A value that means the same in another library becomes the plain one: whole numbers of NumPy and torch are int, their arrays
lists. Which whole numbers a function takes is its own to check (`unmask.checks`).
"""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Callable as AnyCallable
from difflib import get_close_matches
from functools import cache, wraps
from os import PathLike
from pathlib import Path
from types import NoneType, SimpleNamespace, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from unmask import checks
from unmask.checks import shown
from unmask.errors import InputError

Function = TypeVar("Function", bound=Callable[..., Any])
WORDS = {int: "a whole number", float: "a number", str: "a text", bool: "True or False", NoneType: "None"}
EXAMPLES: dict[object, object] = {int: 3, float: 0.5, str: "red", bool: True}
LISTS = (list, tuple, Sequence)


def checked(function: Function) -> Function:
    """The function, which raises an InputError for an argument that its annotation does not allow."""
    signature = inspect.signature(function)
    single = {p.name for p in signature.parameters.values() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}

    def _unknown(name: str) -> str:
        near = get_close_matches(name, single, n=1)
        hint = f"did you mean {near[0]}?" if near else f"use {', '.join(p for p in signature.parameters if p != 'self')}"
        return f"{name} is not an argument of {function.__name__}: {hint}"

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        hints = _hints(function)
        try:
            bound = signature.bind(*args, **options)
        except TypeError:
            unknown = next((name for name in options if name not in signature.parameters), None)
            if unknown is None:
                raise
            raise InputError(getattr(call, "misnamed", _unknown)(unknown)) from None
        for name, given in bound.arguments.items():
            if name in hints and name in single:
                if name != "model" and "model" in hints and type(given).__name__ == "MaskedLM":
                    raise InputError(f"{name} {shown(given)} is a model: give it as model=")
                try:
                    bound.arguments[name] = fitted(name, given, hints[name])
                except _Misfit as error:
                    raise InputError(str(error)) from None
        return function(*bound.args, **bound.kwargs)

    return cast(Function, call)


class _Misfit(InputError):
    """`inside`: it is about an item of a list or a mapping of the right kind."""

    inside = False


def fitted(name: str, given: object, hint: Any) -> Any:
    """`given` as the annotation `hint` has it; raises where it is not."""
    hint = getattr(hint, "array_type", hint)  # jaxtyping compares shapes with those of the caller's arguments
    origin = get_origin(hint)
    if hint is Any or hint is object or isinstance(hint, TypeVar):
        return given
    if origin in (Union, UnionType):
        return _one_of(name, given, hint)
    if origin is Literal:
        return checks.one_of(name, given, get_args(hint))
    if hint is bool:
        if type(given).__name__ in ("bool", "bool_"):
            return bool(given)
    elif hint is int:
        if (value := checks.as_int(given)) is not None:
            return value
    elif hint is float:
        if (number := checks.as_number(given)) is not None:
            return number
    elif origin in LISTS or origin is Iterable:
        return _items(name, given, hint)
    elif origin is Mapping:
        return _mapping(name, given, hint)
    elif origin is AnyCallable:
        if callable(given):
            return given
    elif isinstance(given, origin or hint):
        return given
    raise _misfit(name, given, hint)


def _one_of(name: str, given: object, hint: Any) -> Any:
    nested = None
    if given is None and NoneType in get_args(hint):
        return None
    for member in get_args(hint):
        try:
            return fitted(name, given, member)
        except _Misfit as error:
            nested = error if error.inside else nested
    raise nested or _misfit(name, given, hint)


def _items(name: str, given: object, hint: Any) -> Any:
    item, origin = get_args(hint)[0], get_origin(hint)
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise _misfit(name, given, hint)
    once = origin is Iterable and not isinstance(given, Sequence)
    try:
        listed = iter(given) if once else list(given)
    except TypeError:  # arrays without axes
        raise _misfit(name, given, hint) from None
    if once:  # reading it here might use it up
        return given
    found = [_inside(f"item {number} of {name.rstrip(':')}:", one, item) for number, one in enumerate(listed, 1)]
    same = isinstance(given, list | tuple) and all(a is b for a, b in zip(found, given, strict=True))
    return given if same else tuple(found) if origin is tuple else found


def _mapping(name: str, given: object, hint: Any) -> Any:
    if not isinstance(given, Mapping):
        raise _misfit(name, given, hint)
    of_key, of_value = get_args(hint)
    return {
        _inside(f"a key of {name}:", key, of_key): _inside(f"{name} at {shown(key)}:", value, of_value)
        for key, value in given.items()
    }


def _inside(name: str, given: object, hint: Any) -> Any:
    try:
        return fitted(name, given, hint)
    except _Misfit as error:
        error.inside = True
        raise


def _misfit(name: str, given: object, hint: Any) -> _Misfit:
    if hasattr(given, "state_dict") and "MaskedLM" in [getattr(member, "__name__", "") for member in _members(hint)]:
        kind = type(given).__name__
        return _Misfit(f"{name} {kind} is a network without its tokenizer: give unmask.MaskedLM(network, tokenizer)")
    members = [member for member in _members(hint) if member is not NoneType] or [NoneType]
    *kinds, last = dict.fromkeys(map(_words, members))
    what = f"{', '.join(kinds)} or {last}" if kinds else last
    examples = [_example(member) for member in members if member not in (str, bool)]
    such = next((f" such as {example!r}" for example in examples if example is not None), "")
    return _Misfit(f"{name} {shown(given)} is not {what}: give one{such}")


def _members(hint: Any) -> Iterator[Any]:
    if get_origin(hint) in (Union, UnionType):
        for member in get_args(hint):
            yield from _members(member)
    else:
        yield hint


def _words(hint: Any) -> str:
    """What a value of this annotation is called."""
    origin = get_origin(hint) or hint
    if hint in WORDS:
        return WORDS[hint]
    if origin in LISTS or origin is Iterable:
        return f"a list of {_plural(get_args(hint)[0])}"
    if origin is Mapping:
        key, value = get_args(hint)
        return f"a mapping of {_plural(key)} to {_plural(value)}"
    if origin is AnyCallable:
        return "a function"
    if isinstance(origin, type) and issubclass(origin, PathLike | Path):
        return "a path"
    return f"a {getattr(origin, '__name__', origin)}"


def _plural(hint: Any) -> str:
    kinds = dict.fromkeys(
        _words(member).split(" ", 1)[1].split(" of ")[0] + "s" for member in _members(hint) if member is not Any
    )
    return " or ".join(kinds) or "values"


def _example(hint: Any) -> object:
    origin = get_origin(hint)
    if origin in LISTS:
        item = _example(get_args(hint)[0])
        return None if item is None else [3, 4] if item == 3 else ["red", "green"] if item == "red" else [item]
    if origin is Mapping:
        key, value = map(_example, get_args(hint))
        return None if key is None or value is None else {"old": "new"} if key == value else {key: value}
    return EXAMPLES.get(hint)


class _Names(dict[str, Any]):
    """The names of a module, and those that it imports for type checkers only: public ones of `unmask`, any value otherwise."""

    def __missing__(self, name: str) -> Any:
        import unmask

        return getattr(builtins, name, None) or getattr(unmask, name, Any)


@cache
def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    plain = inspect.unwrap(function)
    given = {name: hint for name, hint in plain.__annotations__.items() if name != "return"}
    return get_type_hints(cast(Any, SimpleNamespace(__annotations__=given)), plain.__globals__, _Names(plain.__globals__))
