"""Every conflict that a verb declares is refused, from Python and from the command line, and the
message names both arguments as that surface writes them.
"""

from itertools import chain

import pytest

from support.command_runner import refused
from unmask.common.border.options import Option, arguments, options
from unmask.common.errors import InputError, in_python
from unmask.surfaces.cli.app import called, command_name
from unmask.surfaces.cli.command import options_of_command, writer
from unmask.verbs import VERBS, verb

VALUES = {
    "alphabet": ("red,green", "red,green"),
    "blocks": ("blocks.jsonl", "blocks.jsonl"),
    "candidates": (4, "4"),
    "changes": (1, "1"),
    "construction": ("pseudo_gibbs", "pseudo_gibbs"),
    "constructions": ("all", "all"),
    "data": ("texts.txt", "texts.txt"),
    "decoder": ("mask-predict", "mask-predict"),
    "epochs": (2.0, "2"),
    "field": ("text", "text"),
    "figure": ("map.png", "map.png"),
    "force": (True, None),
    "given": ({1: "red"}, "1=red"),
    "format": ("csv", "csv"),
    "heads": (1, "1"),
    "init": ("start", "start"),
    "kernel": ("mh", "mh"),
    "layers": (1, "1"),
    "length": (12, "12"),
    "mask_source": (0.1, "0.1"),
    "mass": (0.5, "0.5"),
    "mutations": ("A1G", "A1G"),
    "others": ("text", "text"),
    "pairs": (4, "4"),
    "parallel": (["a.txt", "b.txt"], "a.txt b.txt"),
    "max_passes": (1000, "1000"),
    "positions": ([1], "1"),
    "refinement": (0.5, "0.5"),
    "save": ("profile.json", "profile.json"),
    "scheme": ("random", "random"),
    "seed": (0, "0"),
    "size": ("mini", "mini"),
    "start": ("random", "random"),
    "steps": (3, "3"),
    "sweeps": (2, "2"),
    "support": ("regular", "regular"),
    "template": ("a [MASK]", "a [MASK]"),
    "text": ("a [MASK] [MASK]", "a [MASK] [MASK]"),
    "texts": (["a cat"], "a cat"),
    "tolerance": (0.5, "0.5"),
    "tokenizer": ("tokenizer.json", "tokenizer.json"),
    "top": (20, "20"),
    "valid": ("held-out.txt", "held-out.txt"),
    "valid_share": (0.02, "0.02"),
    "vocab": (100, "100"),
    "weight": ([1.0], "1"),
    "width": (16, "16"),
}
"""A value of each option that a conflict names, in Python and as it is typed; of an option with a
default, that default: it is given, too.
"""
NEEDED = {
    "fill": ("text",),
    "compare": ("text",),
    "mutants": ("sequence",),
    "minimal_pairs": ("data",),
    "score": ("texts",),
    "train": ("out",),
    "translate": ("data", "model"),
}
RIGHT = {
    "text": ("a [MASK] [MASK]", "a [MASK] [MASK]"),
    "sequence": ("ACD", "ACD"),
    "data": ("texts.txt", "texts.txt"),
    "out": ("run", "run"),
    "texts": (["a cat"], "a cat"),
    "model": ("folder", "folder"),
}
"""What each verb needs, and right values of it."""


def of_command(name):
    """The options of a verb as its command has them."""
    one = called([command_name(name)])
    return options_of_command(one.function, one.extra)


def conflicts(options_of):
    """Each verb with the options of a call that breaks one declaration, its culprit first."""
    for name in VERBS:
        for option in options_of(name):
            if option.only is None:
                continue
            beside = option.only.beside[:1]
            if beside:
                yield name, option.name, (), "is used only with"
            for other in option.only.without:
                yield name, option.name, (other, *beside), "is not used with"


CONFLICTS = list(conflicts(lambda name: options(verb(name))))
OF_COMMANDS = list(conflicts(of_command))


def given_of(name, culprit, others):
    """The values of a call, in Python and as typed."""
    needed = [one for one in NEEDED.get(name, ()) if one not in (culprit, *others)]
    values = {one: VALUES[one] for one in (culprit, *others)}
    listed = {option.name: option for option in options(verb(name))}
    methods = {}
    for one in (culprit, *others):
        if listed[one].readers:  # an option of a method needs that method
            reader = listed[one].readers[0]
            methods[listed[one].parameter] = (reader, reader)
    return {one: RIGHT[one] for one in needed} | methods | values


def typed(option: Option, word):
    """The words of an option on the command line."""
    if option.positional:
        return [word]
    flag = f"--{option.name.replace('_', '-')}"
    if word is None:
        return [flag]
    return [flag, *(word.split() if option.written.words > 1 else [word])]


@pytest.fixture(autouse=True)
def texts_to_start_from(tmp_path, monkeypatch):
    """Texts are read where `init` names a file of them, before the call is checked."""
    (tmp_path / "start").write_text("the cat\n")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("name", "culprit", "others", "words"), CONFLICTS)
def test_python_refuses(name, culprit, others, words):
    given = {one: value for one, (value, _) in given_of(name, culprit, others).items()}
    function = verb(name)
    with pytest.raises(InputError) as error:
        function(**arguments(function, given))
    message = str(error.value)
    other = others[0] if others else expected_beside(name, culprit)
    assert message.startswith(f"{culprit} {words} {other}"), message


@pytest.mark.parametrize(("name", "culprit", "others", "words"), OF_COMMANDS)
def test_the_command_refuses(name, culprit, others, words):
    listed = {option.name: option for option in of_command(name)}
    given = given_of(name, culprit, others)
    line = chain.from_iterable(typed(listed[one], word) for one, (_, word) in given.items())
    message = refused([command_name(name), *line])
    write = writer(list(listed.values()))
    other = others[0] if others else expected_beside(name, culprit)
    assert message.startswith(f"{write(culprit, None)} {words} {write(other, None)}"), message


def expected_beside(name, culprit):
    """The first option beside which the culprit could be given."""
    (option,) = (one for one in options(verb(name)) if one.name == culprit)
    return option.only.beside[0]


def test_names_are_written_in_two_ways():
    """The negative control: what the two tests above expect differs."""
    write = writer(options(verb("train")))
    assert write("valid_share", None) == "--valid-share" != in_python("valid_share", None)
    assert len(CONFLICTS) > len(OF_COMMANDS) > 10
