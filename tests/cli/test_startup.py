"""What a command loads before it answers: what it needs, and no more."""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib import import_module

import pytest

from unmask.cli.app import COMMANDS, command

FOR_OTHER_WORK = {"transformers", "huggingface_hub", "pandas", "pyarrow", "matplotlib", "scipy", "sympy", "arviz_stats", "ray"}
FOR_OTHER_WORK |= {"torch._dynamo", "torch._inductor", "unmask.training", "unmask.sampling", "unmask.evaluation", "unmask.lab"}


def loaded(*args: str) -> set[str]:
    """The modules, and the packages that they are in, that `unmask ARGS` loads."""
    ending = "atexit.register(lambda: print('loaded:', *sys.modules))"
    program = [sys.executable, "-c", f"import atexit, sys, unmask.__main__; {ending}; unmask.__main__.main()", *args]
    told = subprocess.run(program, capture_output=True, text=True, check=True, timeout=120).stdout
    return set(told.partition("loaded:")[2].split())


def test_help_loads_no_command():
    names = loaded("--help")
    assert "typer" in names and "unmask.cli.app" in names
    assert not names & ({"torch", "numpy", "pydantic"} | FOR_OTHER_WORK | {f"unmask.cli.{name}" for name in COMMANDS})


def test_fill_loads_its_command_and_nothing_for_other_work():
    names = loaded("fill", "The [MASK] [MASK] sat.", "--candidates", "8")
    assert {"torch", "unmask.cli.fill", "unmask.models.own_bert"} <= names
    assert not names & (FOR_OTHER_WORK | {f"unmask.cli.{name}" for name in COMMANDS if name != "fill"})


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_unmask_shows_the_first_line_of_each_command(name):
    assert command(name).name == name or name == "lab"
    first = command(name).help if name == "lab" else inspect.getdoc(getattr(import_module(f"unmask.cli.{name}"), name))
    assert first.split("\n\n")[0] == COMMANDS[name]
