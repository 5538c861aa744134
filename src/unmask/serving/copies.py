"""A question of the page as Python and as a command: both print its answer outside of the browser."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from json import dumps
from typing import Any

import unmask
from unmask.sampling.registry import entry_of
from unmask.signature import options

Values = Mapping[str, Any]
OF_THE_PAGE = ("cells", "pin")


class Code(str):
    """Python that is written as it is."""


class Copies:
    """Copies of questions about the model that was given by `name` (None: the bundled one), loaded with `loaded` options."""

    def __init__(self, name: str | None, loaded: Values) -> None:
        self.name, self.loaded = name, loaded

    def of(self, verb: str, values: Values) -> dict[str, str]:
        """The question with these values, as {python, command}."""
        values = {name: value for name, value in values.items() if value is not None and name not in OF_THE_PAGE}
        python, shown, before = dict(values), ".to_frame()", ""
        if verb == "mutants" and values["changes"] == 1:
            python["positions"] = values["positions"] = "all"
        elif verb == "score":
            python["rows"] = "nested"
        elif verb == "sample":
            shown, own = ".last", {name: python.pop(name) for name in ("temperature",) if name in python}
            python["kernel"] = Code(_call(entry_of(values["kernel"]).__name__, (), own)) if own else values["kernel"]
            if text := python.pop("init", None):
                python["start"] = Code(_call("Start", (), {"init": [text]}))
                values["init"], before = "-", f"printf '%s\\n' {shlex.quote(text)} | "
        first, named = _parts(verb, python)
        model = Code(_call("load", (self.name,) if self.name else (), self.loaded)) if self.loaded else self.name
        line = _call(verb, first, named if model is None else {**named, "model": model})
        return {"python": f"import unmask\n\nprint({line}{shown}.to_string())", "command": before + self._line(verb, values)}

    def _line(self, verb: str, values: Values) -> str:
        first, named = _parts(verb, values)
        words = ["unmask", verb, *(str(one) for part in first for one in (part if isinstance(part, list) else [part]))]
        for name, value in {**named, **({"model": self.name} if self.name else {}), **self.loaded}.items():
            words.append(f"--{name.replace('_', '-')}")
            words += [] if value is True else [",".join(map(str, value)) if isinstance(value, list) else str(value)]
        return shlex.join(words)


def _parts(verb: str, values: Values) -> tuple[list[Any], dict[str, Any]]:
    """The values that have a place, and those with a name; defaults are left out."""
    known = {option.name: option for option in options(getattr(unmask, verb))}
    place = [name for name, option in known.items() if option.positional and name in values]
    named = {name: value for name, value in values.items() if name not in place and value is not False}
    changed = {name: value for name, value in named.items() if name not in known or value != known[name].default}
    return [values[name] for name in place], changed


def _call(name: str, first: Any, named: Values) -> str:
    return f"unmask.{name}({', '.join([*map(_python, first), *(f'{key}={_python(value)}' for key, value in named.items())])})"


def _python(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_python, value))}]"
    return dumps(value, ensure_ascii=False) if isinstance(value, str) and not isinstance(value, Code) else str(value)
