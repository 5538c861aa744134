"""A question of the page as a line of Python and as a command: both print its answer outside of the browser."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from json import dumps
from typing import Any

import unmask
from unmask.joints.registry import DEFAULT
from unmask.sampling.registry import KERNELS
from unmask.signature import options

Values = Mapping[str, Any]
PRINTED = {"sample": ".last.to_string()", "score": ".to_frame().to_string()"}


class Code(str):
    """Python that is written as it is."""


class Copies:
    """Copies of questions about the model that was given by `name` (None: the bundled one), loaded with `loaded` options."""

    def __init__(self, name: str | None, loaded: Values) -> None:
        self.name, self.loaded = name, loaded

    def of(self, verb: str, values: Values) -> dict[str, str]:
        """The question `verb` of the page with these values, as {python, command}."""
        values = {name: value for name, value in values.items() if value is not None}
        if verb == "sample":
            return self._sample(values)
        if verb == "mutants" and values["changes"] == 1:
            values["positions"] = "all"
        if verb == "score":
            return self._both(verb, {**values, "rows": "nested"}, values)
        if verb == "fill" and "pin" in values:
            return self._pinned(values)
        values = {name: value for name, value in values.items() if name not in ("cells", "pin")}
        return self._both(verb, values, values)

    def compared(self, values: Values) -> dict[str, str]:
        """Of blanks whose joint is a table."""
        return self.of("compare" if values["pin"] is None else "fill", {**values, "top": None, "cells": None})

    def _both(self, verb: str, for_python: Values, for_command: Values) -> dict[str, str]:
        printed = PRINTED.get(verb, ".to_frame().to_string()")
        return {
            "python": f"import unmask\n\nprint({self._call(verb, for_python)}{printed})",
            "command": self._line(verb, for_command),
        }

    def _sample(self, values: Values) -> dict[str, str]:
        method = KERNELS[values["kernel"]]
        own = {name: values[name] for name in ("temperature",) if name in values}
        python = {name: value for name, value in values.items() if name not in ("temperature", "init")}
        python["kernel"] = Code(_written(f"unmask.{method.__name__}", (), own)) if own else values["kernel"]
        if "init" not in values:
            return self._both("sample", python, values)
        python["start"] = Code(_written("unmask.Start", (), {"init": [values["init"]]}))
        copies = self._both("sample", python, {**values, "init": "-"})
        return {**copies, "command": f"printf '%s\\n' {shlex.quote(values['init'])} | {copies['command']}"}

    def _pinned(self, values: Values) -> dict[str, str]:
        pin = values["pin"]
        joint = {name: value for name, value in values.items() if name in ("text", "joint", "candidates", "exact")}
        lines = [
            "import unmask\n",
            f"joint = {self._call('compare', joint)}.joints[{dumps(values.get('joint', DEFAULT))}]",
            f"# blank {2 - pin['blank']}, given token {pin['token']} in blank {pin['blank'] + 1}",
            f"given = joint.conditional({1 - pin['blank']}, [{pin['token']}])",
            "for place in given.argsort(descending=True)[:8].tolist():",
            f'    print(f"{{given[place]:.6f}}", joint.label(int(joint.tables.candidates[{1 - pin["blank"]}][place])))',
        ]
        python = "\n".join(lines)
        return {"python": python, "command": f"python3 - <<'END'\n{python}\nEND"}

    def _call(self, verb: str, values: Values) -> str:
        """The call of a verb; its first parameter has a place, and defaults are left out."""
        first, named = self._parts(verb, values)
        if self.loaded:
            named["model"] = Code(_written("unmask.load", () if self.name is None else (self.name,), self.loaded))
        elif self.name is not None:
            named["model"] = self.name
        return _written(f"unmask.{verb}", first, named)

    def _line(self, verb: str, values: Values) -> str:
        first, named = self._parts(verb, values)
        words = ["unmask", verb, *(str(one) for part in first for one in (part if isinstance(part, list) else [part]))]
        for name, value in {**named, **({} if self.name is None else {"model": self.name}), **self.loaded}.items():
            flag = f"--{name.replace('_', '-')}"
            words += [flag] if value is True else [flag, ",".join(map(str, value)) if isinstance(value, list) else str(value)]
        return shlex.join(words)

    def _parts(self, verb: str, values: Values) -> tuple[tuple[Any, ...], dict[str, Any]]:
        known = options(getattr(unmask, verb))
        defaults = {option.name: option.default for option in known}
        first = tuple(values[option.name] for option in known if option.positional and option.name in values)
        place = {option.name for option in known if option.positional}
        named = {name: value for name, value in values.items() if name not in place and value != defaults.get(name)}
        return first, {name: value for name, value in named.items() if value is not False}


def _written(name: str, first: tuple[Any, ...], named: Values) -> str:
    return f"{name}({', '.join([*map(_python, first), *(f'{key}={_python(value)}' for key, value in named.items())])})"


def _python(value: Any) -> str:
    return (
        str(value)
        if isinstance(value, Code)
        else dumps(value, ensure_ascii=False)
        if isinstance(value, str)
        else (f"[{', '.join(map(_python, value))}]" if isinstance(value, list) else repr(value))
    )
