"""Requests as lines of Python and as commands, which print their answers outside of the browser."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import is_dataclass
from json import dumps
from typing import Any

import unmask
from unmask.common.border.options import arguments, options
from unmask.runs.file_names import looks_like_a_file

Values = Mapping[str, Any]
OF_THE_PAGE = ("cells",)  # no options of a verb


class Copies:
    """Writes requests for the model `name` (None: the bundled one), loaded with these options."""

    def __init__(self, name: str | None, load_options: Values) -> None:
        self.name: str | None = name
        self.load_options: Values = load_options

    def of(self, verb: str, given: Values) -> dict[str, str]:
        """The request with these values, as {python, command}."""
        values = {name: value for name, value in given.items() if name not in OF_THE_PAGE}
        if "given" in values:  # JSON has texts for keys
            values["given"] = {int(blank): word for blank, word in values["given"].items()}
        if verb == "mutants" and values.get("changes", 1) == 1:
            values["positions"] = "all"
        return {"python": self._python(verb, values), "command": self._command(verb, values)}

    def _python(self, verb: str, values: Values) -> str:
        """Lines that print the sentences and the numbers of the answer."""
        values = dict(values)
        if verb == "score":
            values["rows"] = "nested"  # as the command has texts that are typed
        if verb == "sample" and "start" in values:
            values["start"] = [values["start"]]
        function = getattr(unmask, verb)
        first_name = options(function)[0].name
        is_one_text = isinstance(values.get(first_name), str) and hasattr(function, "of_text")
        first_of_list = ""
        if is_one_text and _needs_text(values[first_name]):
            values[first_name] = [values[first_name]]
            first_of_list = "[0]"
        placed, named = _parts(verb, arguments(function, values))
        line = _call(verb, placed, named, last=self._model())
        return (
            f"import unmask\n\nresult = {line}{first_of_list}\n"
            "print(result.summary())\nprint(result.to_frame().to_string())"
        )

    def _model(self) -> str:
        """The argument `model` of a call; "" for the bundled one."""
        if self.load_options:
            names = (self.name,) if self.name else ()
            return f"model={_call('load', names, self.load_options)}"
        if self.name:
            return f"model={_in_python(self.name)}"
        return ""

    def _command(self, verb: str, values: Values) -> str:
        """The command line; a text that chains start from comes from standard input."""
        line = shlex.join(self.words(verb, values))
        if verb == "sample" and "start" in values:
            return f"printf '%s\\n' {shlex.quote(values['start'])} | {line}"
        return line

    def words(self, verb: str, values: Values) -> list[str]:
        """The words of the command."""
        values = dict(values)
        if verb == "sample" and "start" in values:
            values["start"] = "-"
        placed, named = _parts(verb, values)
        texts: list[str] = []
        for part in placed:
            texts += part if isinstance(part, list) else [part]
        draws = verb in ("sample", "generate")  # their template may look like a file
        if not draws and any(_needs_text(text) for text in texts):
            texts = [word for text in texts for word in ("--text", text)]
        of_model = {"model": self.name} if self.name else {}
        line = ["unmask", verb, *texts]
        for name, value in {**named, **of_model, **self.load_options}.items():
            line += _option(name, value)
        return line


def _option(name: str, value: Any) -> list[str]:
    """The words of an option on the command line."""
    flag = f"--{name.replace('_', '-')}"
    if value is True:
        return [flag]
    if isinstance(value, dict):  # a mapping is an option for each pair
        return [word for key, one in value.items() for word in (flag, f"{key}={one}")]
    if isinstance(value, list):
        return [flag, ",".join(map(str, value))]
    return [flag, str(value)]


def _needs_text(text: str) -> bool:
    """Whether a command takes the text only after --text, and Python only in a list: it looks
    like a file or standard input.
    """
    return text == "-" or looks_like_a_file(text)


def _parts(verb: str, values: Values) -> tuple[list[Any], dict[str, Any]]:
    """The values that have a place, and those with a name; defaults are left out."""
    known = {option.name: option for option in options(getattr(unmask, verb))}
    placed = [name for name, option in known.items() if option.positional and name in values]
    named = {}
    for name, value in values.items():
        is_default = name in known and value == known[name].default
        if name not in placed and not is_default:
            named[name] = value
    return [values[name] for name in placed], named


def _call(name: str, placed: Any, named: Values, last: str = "") -> str:
    parts = [_in_python(value) for value in placed]
    parts += [f"{key}={_in_python(value)}" for key, value in named.items()]
    if last:
        parts.append(last)
    return f"unmask.{name}({', '.join(parts)})"


def _in_python(value: Any) -> str:
    """A value as Python code: texts, lists, mappings, and objects with their own options."""
    if is_dataclass(value):
        kind: Any = type(value)
        usual = kind()
        own = {name: one for name, one in vars(value).items() if one != getattr(usual, name)}
        return _call(kind.__name__, (), own)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_in_python, value))}]"
    if isinstance(value, dict):
        pairs = [f"{_in_python(key)}: {_in_python(one)}" for key, one in value.items()]
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, str):
        return dumps(value, ensure_ascii=False)
    return str(value)
