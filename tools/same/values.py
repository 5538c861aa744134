"""From results to named values: arrays with dtype and shape, texts, and messages.

    array     numbers, as the hexadecimal digits of their bytes, with dtype and shape
    text      a text that is part of a result, such as a token or the name of a construction
    message   a sentence for people: differences are reported and are no failure

A value's name is its path in the result, such as `to_dict/completions/0/log_prob`. Nothing is
rounded and nothing is computed. What differs from run to run (`is_changing`) has no value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

ARRAY = "array"
TEXT = "text"
MESSAGE = "message"

DATES_AND_SPEED = "begun date began ended time"
MACHINE_AND_VERSIONS = "about provenance device hardware host platform python torch unmask version"
PLACES_AND_FORMATS = "command folder format path threads"
CHANGING = frozenset(f"{DATES_AND_SPEED} {MACHINE_AND_VERSIONS} {PLACES_AND_FORMATS}".split())
"""Keys whose values are dates, seconds, commands, paths or versions."""

REMARKS = "warning warnings verdict sentence notes note concerns reason why problem error lines"
TITLES = "headline title quote claim claims caption findings statement describe description meaning"
SIGNATURES = "bleu_signature chrf_signature"  # with the version of sacrebleu
PROSE = frozenset(f"{REMARKS} {TITLES} {SIGNATURES}".split())
"""Keys whose texts are sentences for people."""


@dataclass(frozen=True)
class Value:
    """One named value of a call.

    kind    ARRAY, TEXT or MESSAGE
    dtype   of an array: that of numpy or torch, or `int`, `float`, `bool` of Python
    shape   of an array
    data    of an array the bytes in hexadecimal, of Python's whole numbers the decimal digits;
            else the text
    """

    kind: str
    dtype: str
    shape: tuple[int, ...]
    data: str

    @property
    def count(self) -> int:
        """How many numbers or texts it holds."""
        return int(np.prod(self.shape)) if self.kind == ARRAY else 1

    def to_json(self) -> list[Any]:
        """The value as a line of a file has it."""
        return [self.kind, self.dtype, list(self.shape), self.data]

    @classmethod
    def from_json(cls, stored: list[Any]) -> Value:
        """The inverse of `to_json`."""
        kind, dtype, shape, data = stored
        return cls(kind, dtype, tuple(shape), data)


Named = Iterator[tuple[str, Value]]
Parts = Callable[[Any], Mapping[str, Any] | None]
"""From an object to its parts by name; None for an object that it does not know."""


def text(data: str) -> Value:
    """A text."""
    return Value(TEXT, "str", (), data)


def message(data: str) -> Value:
    """A sentence for people."""
    return Value(MESSAGE, "str", (), data)


def named_values(result: Any, parts: Parts, name: str = "", prose: bool = False) -> Named:
    """All values of a result, with their names.

    parts   the parts of objects that are neither numbers, texts, lists nor mappings; an adapter's
    prose   texts inside are sentences for people
    """
    of_text = message if prose else text
    if result is None:
        yield name, text("None")
    elif isinstance(result, str):
        yield name, of_text(result)
    elif isinstance(result, bytes):
        yield name, text(result.hex())
    elif isinstance(result, bool | int | float):
        yield name, python_numbers([result], ())
    elif is_array(result):
        yield from array_values(result, name, of_text)
    elif is_frame(result):
        for column in result.columns:
            if not is_changing(column):
                yield from column_values(
                    result[column], below(name, str(column)), parts, is_prose(column, prose)
                )
    elif isinstance(result, Mapping):
        for key, value in result.items():
            if not is_changing(key):
                yield from named_values(value, parts, below(name, str(key)), is_prose(key, prose))
    elif isinstance(result, set | frozenset):
        yield from list_values(sorted(result, key=repr), parts, name, prose)
    elif (known := parts(result)) is not None:
        yield from named_values(known, parts, name, prose)
    elif isinstance(result, list | tuple):
        yield from list_values(list(result), parts, name, prose)
    else:
        raise TypeError(f"{name} is a {type(result).__name__}, of which no adapter names the parts")


def below(name: str, key: str) -> str:
    """The name of a part."""
    return f"{name}/{key}" if name else key


def is_changing(key: object) -> bool:
    """Whether the value of this key differs from run to run."""
    words = str(key).split("_")
    return str(key) in CHANGING or "seconds" in words or words[-2:] == ["per", "second"]


def is_prose(key: object, prose: bool) -> bool:
    """Whether texts under this key are sentences for people."""
    return prose or str(key) in PROSE


def is_array(value: Any) -> bool:
    """Whether this is an array or number of numpy, or a tensor of any class."""
    is_tensor = hasattr(value, "detach") and hasattr(value, "dim")
    return is_tensor or isinstance(value, np.ndarray | np.generic)


def is_frame(value: Any) -> bool:
    """Whether this is a data frame."""
    return type(value).__name__ == "DataFrame"


def array_values(array: Any, name: str, of_text: Callable[[str], Value]) -> Named:
    """An array of numpy, or a tensor, by its bytes."""
    if hasattr(array, "detach"):
        yield name, tensor_value(array)
        return
    array = np.asarray(array)
    if array.dtype.kind in "OUS":  # objects and texts have no bytes that mean anything
        shown = json.dumps(array.astype(str).tolist(), ensure_ascii=False)
        yield name, of_text(shown)
    else:
        contiguous = np.ascontiguousarray(array)
        yield name, Value(ARRAY, str(array.dtype), tuple(array.shape), contiguous.tobytes().hex())


def tensor_value(tensor: Any) -> Value:
    """A tensor by its bytes, also in a dtype that numpy lacks."""
    import torch

    stored = tensor.detach().cpu().contiguous()
    dtype = str(stored.dtype).removeprefix("torch.")
    flat = (
        stored.reshape(-1).view(torch.uint8) if stored.dtype != torch.bool else stored.reshape(-1)
    )
    return Value(ARRAY, dtype, tuple(tensor.shape), flat.numpy().tobytes().hex())


def column_values(column: Any, name: str, parts: Parts, prose: bool) -> Named:
    """A column of a frame; one of objects is a list."""
    if column.dtype == object or str(column.dtype) in ("str", "string", "category"):
        yield from named_values(column.tolist(), parts, name, prose)
    else:
        yield from named_values(column.to_numpy(), parts, name, prose)


def list_values(items: list[Any], parts: Parts, name: str, prose: bool) -> Named:
    """A list: one value if all items are numbers, or texts; else those of its items, and how
    many.
    """
    if (shape := rectangle(items)) is not None:
        yield name, python_numbers(leaves(items), shape)
    elif all(isinstance(item, str) for item in items):
        of_text = message if prose else text
        yield name, of_text(json.dumps(items, ensure_ascii=False))
    else:
        yield below(name, "len"), python_numbers([len(items)], ())
        for number, item in enumerate(items):
            yield from named_values(item, parts, below(name, str(number)), prose)


def rectangle(items: list[Any]) -> tuple[int, ...] | None:
    """The shape of nested lists of Python's numbers of one type; None for other lists."""
    if not items:
        return None
    if all(isinstance(item, list | tuple) for item in items):
        shapes = {rectangle(list(item)) for item in items}
        kinds = {type(leaf) for leaf in leaves(items)}
        inside = next(iter(shapes))
        return (
            (len(items), *inside)
            if len(shapes) == 1 and inside is not None and len(kinds) == 1
            else None
        )
    kind = type(items[0])
    same = kind in (bool, int, float) and all(type(item) is kind for item in items)
    return (len(items),) if same else None


def leaves(items: Any) -> list[Any]:
    """The numbers of nested lists, in their order."""
    if not isinstance(items, list | tuple):
        return [items]
    return [leaf for item in items for leaf in leaves(item)]


def python_numbers(numbers: list[Any], shape: tuple[int, ...]) -> Value:
    """Numbers of Python, all of one type."""
    kind = type(numbers[0])
    if kind is float:
        data = np.array(numbers, dtype=np.float64).tobytes().hex()
    else:  # whole numbers have any size, so they stand in decimal
        data = " ".join(str(int(number)) for number in numbers)
    return Value(ARRAY, kind.__name__, shape, data)
