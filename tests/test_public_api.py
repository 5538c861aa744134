"""The public names."""

import inspect
import re
import tomllib
from pathlib import Path

import pytest

import unmask
from unmask.common.results import Result
from unmask.verbs import VERBS, verb

ROOT = Path(__file__).parents[1]


def test_every_public_name_is_there():
    for name in unmask.__all__:
        assert getattr(unmask, name) is not None
    assert set(dir(unmask)) == set(unmask.__all__)
    assert unmask.__all__ == sorted(unmask.__all__)


def public_functions():
    """Public functions and public methods of public classes, by name."""
    for name in unmask.__all__:
        value = getattr(unmask, name)
        if inspect.isfunction(value):
            yield name, value
        elif inspect.isclass(value):
            for attribute, method in vars(value).items():
                function = getattr(method, "__func__", method)  # of a class method
                if not attribute.startswith("_") and inspect.isfunction(function):
                    yield f"{name}.{attribute}", function


def returns_something(function):
    return inspect.unwrap(function).__annotations__["return"] not in (None, "None")


def has_section_returns(function):
    """Whether the docstring has the section, with a sentence in it."""
    return re.search(
        r"^Returns:\n    \S.*\.$", inspect.getdoc(function) or "", re.MULTILINE | re.DOTALL
    )


def test_every_function_says_what_it_returns():
    functions = {name: value for name, value in public_functions() if "." not in name}
    assert len(functions) > 15
    silent = [
        name
        for name, function in functions.items()
        if returns_something(function) and not has_section_returns(function)
    ]
    assert silent == []
    assert not has_section_returns(has_section_returns)  # which has a docstring, and no section


def returned_class(function):
    """The class that a verb returns; that of the answers, of a verb that takes many texts."""
    plain = inspect.unwrap(function)
    written = plain.__annotations__["return"]
    answers = re.fullmatch(r"Iterator\[(.*)\]", written)
    if answers is not None:
        written = answers[1]
    return eval(written, plain.__globals__)


@pytest.mark.parametrize("name", [name for name in VERBS if name != "serve"])  # it returns nothing
def test_a_verb_returns_one_result(name):
    """No union: a class, or for many texts a list of it."""
    returned = returned_class(verb(name))
    assert inspect.isclass(returned)
    assert issubclass(returned, Result)
    assert getattr(unmask, returned.__name__) is returned


def test_a_union_of_results_is_found():
    def either() -> "unmask.Filling | unmask.Comparison":
        raise NotImplementedError

    assert not inspect.isclass(returned_class(either))


def test_every_class_and_method_has_a_docstring():
    classes = [name for name in unmask.__all__ if inspect.isclass(getattr(unmask, name))]
    documented = {name: getattr(unmask, name) for name in classes} | dict(public_functions())
    assert len(documented) > 140
    assert [
        name for name, value in documented.items() if not vars(value).get("__doc__", value.__doc__)
    ] == []


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="unmask attribute no_such_name"):
        unmask.no_such_name  # noqa: B018


def test_one_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert unmask.__version__ == project["version"]
