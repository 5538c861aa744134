"""Questions of the page as lines of Python and as commands, for use outside of the browser. Both
print the answer.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import is_dataclass
from json import dumps
from typing import Any

import unmask
from unmask.common.border.marks import TakesMethod, mark
from unmask.common.border.options import Option, arguments, options
from unmask.common.methods.own_code import names_code, refuse_in_requests, without_own_code
from unmask.runs.file_names import looks_like_a_file
from unmask.sampling.settings import STARTS

Values = Mapping[str, Any]
OF_THE_PAGE = ("cells",)  # fields of a request that are not options of the verb
WITH_TEMPLATES = ("sample", "generate")  # verbs whose first argument is never the name of a file
PRINTED = "print(result.summary())\nprint(result.to_frame().to_string())"


class Copies:
    """Writes questions to one model.

    name           of the model; None: the bundled one
    load_options   options of its loading that are not the default
    """

    def __init__(self, name: str | None, load_options: Values) -> None:
        self.name: str | None = name
        self.load_options: Values = load_options

    def of(self, verb: str, given: Values) -> dict[str, str]:
        """The question with these values, as {python, command}. Raises InputError if it names a
        file of code.
        """
        _refuse_code(verb, given)
        values = {name: value for name, value in given.items() if name not in OF_THE_PAGE}
        if "given" in values:  # JSON has texts for keys
            values["given"] = {int(blank): word for blank, word in values["given"].items()}
        if verb == "mutants":
            every = list(range(1, len(values["sequence"]) + 1))
            if values["positions"] == every:
                values["positions"] = "all"  # the same, and shorter
        return {"python": self._python(verb, values), "command": self._command(verb, values)}

    # ---- Python ----

    def _python(self, verb: str, values: Values) -> str:
        """Lines that print the sentences and the numbers of the answer."""
        values = dict(values)
        if verb == "score":
            # The answer then has words and tokens, too. The command needs no option for them: it
            # always prints those of typed texts.
            values["rows"] = "nested"
        if _starts_from_a_text(verb, values):
            values["start"] = [values["start"]]  # a bare text would be the name of a file
        function = getattr(unmask, verb)
        first = options(function)[0].name
        text = values.get(first)
        opens_files = hasattr(function, "of_text")  # such a verb takes a text, a file or a list
        is_in_list = opens_files and isinstance(text, str) and _taken_for_a_file(text)
        if is_in_list:  # by itself it would be opened as a file
            values[first] = [text]
        placed, named = _placed_and_named(verb, arguments(function, values))
        answer = _call(verb, placed, named, last=self._model())
        if is_in_list:  # a list of texts is answered by a list
            answer = f"{answer}[0]"
        return f"import unmask\n\nresult = {answer}\n{PRINTED}"

    def _model(self) -> str:
        """The argument `model` of a call; "" for the bundled one."""
        if self.load_options:
            names = (self.name,) if self.name else ()
            return f"model={_call('load', names, self.load_options)}"
        if self.name:
            return f"model={_in_python(self.name)}"
        return ""

    # ---- the command ----

    def _command(self, verb: str, values: Values) -> str:
        """The command line; a text that chains start from comes from standard input."""
        command = shlex.join(self.words(verb, values))
        if not _starts_from_a_text(verb, values):
            return command
        lines = [line.strip() for line in values["start"].splitlines()]
        start = " ".join(line for line in lines if line)  # two lines would be two starts
        return f"printf '%s\\n' {shlex.quote(start)} | {command}"

    def words(self, verb: str, values: Values) -> list[str]:
        """The words of the command."""
        values = dict(values)
        if _starts_from_a_text(verb, values):
            values["start"] = "-"  # standard input: on the command line a text is a file's name
        placed, named = _placed_and_named(verb, values)
        texts: list[str] = []
        for value in placed:
            if isinstance(value, list):
                texts += value
            else:
                texts.append(value)
        of_model = {"model": self.name} if self.name else {}
        named_words: list[str] = []
        for group in (named, of_model, self.load_options):
            for name, value in group.items():
                named_words += _option(name, value)
        is_template = verb in WITH_TEMPLATES
        if is_template and texts[0].startswith("-"):  # what follows -- is no option
            return ["unmask", verb, *named_words, "--", *texts]
        if is_template:
            return ["unmask", verb, *texts, *named_words]
        return ["unmask", verb, *_words_of_texts(texts), *named_words]


def _words_of_texts(texts: list[str]) -> list[str]:
    """Texts as words of a command: as they stand, or as values of --text where one of them would
    be taken for a file or for an option.
    """
    is_plain = not any(_taken_for_a_file(text) or text.startswith("-") for text in texts)
    if is_plain:
        return texts
    words = []
    for text in texts:
        looks_like_an_option = text.startswith("-") and text != "-"
        if looks_like_an_option:  # as a word of its own it would be read as one
            words.append(f"--text={text}")
        else:
            words += ["--text", text]
    return words


def _option(name: str, value: Any) -> list[str]:
    """The words of an option on the command line."""
    flag = f"--{name.replace('_', '-')}"
    if value is True:
        return [flag]
    if isinstance(value, dict):  # a mapping is an option for each pair
        words = []
        for key, part in value.items():
            words += [flag, f"{key}={part}"]
        return words
    if isinstance(value, list):
        value = ",".join(map(str, value))
    return [flag, str(value)]


# ---- both ----


def _refuse_code(verb: str, given: Values) -> None:
    """Refuse a method that names a file of code, as the verb does: where the copy is pasted, it
    would be loaded.
    """
    declared = {option.name: option for option in options(getattr(unmask, verb))}
    for name, value in given.items():
        takes_method = name in declared and mark(declared[name].annotation, TakesMethod) is not None
        if not takes_method:
            continue  # a text, which may look like a file
        methods = [value] if isinstance(value, str) else value
        for method in methods:
            if names_code(method):
                # `refuse_in_requests` raises where own code is switched off, and only there. This
                # block is for its error: no code runs in it.
                with without_own_code():
                    refuse_in_requests(name, method)


def _starts_from_a_text(verb: str, values: Values) -> bool:
    """Whether chains start from a text, not in one of the ways that have a name."""
    return verb == "sample" and "start" in values and values["start"] not in STARTS


def _taken_for_a_file(text: str) -> bool:
    """Whether a text by itself would be read as the name of a file, or as standard input. A command
    then has it after --text, and Python in a list.
    """
    return text == "-" or looks_like_a_file(text)


def _placed_and_named(verb: str, values: Values) -> tuple[list[Any], dict[str, Any]]:
    """The values that are given by their place, and those that are given by name, without those
    that are the default.
    """
    declared = {option.name: option for option in options(getattr(unmask, verb))}
    places = [name for name, option in declared.items() if option.positional and name in values]
    named = {}
    for name, value in values.items():
        if name in places:
            continue
        if name in declared and _is_default(declared[name], value):
            continue
        named[name] = value
    return [values[name] for name in places], named


def _is_default(option: Option, value: Any) -> bool:
    """Whether a value is the default; a list of one value is that value."""
    return value == option.default or value == [option.default]


def _call(name: str, placed: Any, named: Values, last: str = "") -> str:
    """A call of a function of unmask.

    last   an argument that is written already; "" for none
    """
    parts = [_in_python(value) for value in placed]
    parts += [f"{key}={_in_python(value)}" for key, value in named.items()]
    if last:
        parts.append(last)
    return f"unmask.{name}({', '.join(parts)})"


def _in_python(value: Any) -> str:
    """A value as Python code: texts, numbers, lists, mappings, and dataclasses of unmask, whose
    fields all have defaults.
    """
    if is_dataclass(value):
        kind: Any = type(value)
        usual = kind()
        own = {}
        for name, part in vars(value).items():
            if part != getattr(usual, name):
                own[name] = part
        return _call(kind.__name__, (), own)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_in_python, value))}]"
    if isinstance(value, dict):
        pairs = [f"{_in_python(key)}: {_in_python(part)}" for key, part in value.items()]
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, str):
        return dumps(value, ensure_ascii=False)  # a text of JSON is one of Python
    return str(value)
