"""What a command loads before it answers: what it needs, and no more."""

import subprocess
import sys

import pytest

from unmask.common.border.declarations import summary
from unmask.verbs import VERBS, first_lines, verb

FOR_OTHER_WORK = {
    "transformers",
    "huggingface_hub",
    "pandas",
    "pyarrow",
    "matplotlib",
    "scipy",
    "sympy",
    "arviz_stats",
    "ray",
}
FOR_OTHER_WORK |= {
    "torch._dynamo",
    "torch._inductor",
    "unmask.studies.training",
    "unmask.sampling",
    "unmask.studies.evaluation",
    "unmask.studies.lab",
}
EIGHT = {"compare": ("--candidates", "8"), "score": ()}
HEAVY = {
    "torch",
    "numpy",
    "pydantic",
    "transformers",
    "pandas",
    "pyarrow",
    "matplotlib",
    "scipy",
    "arviz_stats",
    "ray",
}


def loaded(*args: str) -> set[str]:
    """The modules, and the packages that they are in, that `unmask ARGS` loads."""
    ending = "atexit.register(lambda: print('loaded:', *sys.modules))"
    program = [
        sys.executable,
        "-c",
        f"import atexit, sys, unmask.__main__; {ending}; unmask.__main__.main()",
        *args,
    ]
    told = subprocess.run(program, capture_output=True, text=True, check=True, timeout=600).stdout
    return set(told.partition("loaded:")[2].split())


def test_help_loads_no_command():
    names = loaded("--help")
    assert "cyclopts" in names
    assert not names & (HEAVY | set(VERBS.values()) | {"unmask.surfaces.cli.printing"})


@pytest.mark.parametrize("command", ["lab", "lab masking"])
def test_the_help_of_the_lab_reads_its_signatures_only(command):
    names = loaded(*command.split(), "--help")
    assert "unmask.studies.lab" in names
    assert not names & (HEAVY | {"unmask.surfaces.cli.printing", "unmask.studies.lab.model"})


def test_the_help_of_unmask_has_the_first_line_of_every_verb():
    lines = first_lines()
    assert list(lines) == list(VERBS)
    for name, line in lines.items():
        assert line == summary(verb(name)) != ""


def test_fill_loads_its_command_and_nothing_for_other_work():
    names = loaded("fill", "The [MASK] [MASK] sat.", "--candidates", "8")
    assert {
        "torch",
        "unmask.surfaces.cli.printing",
        "unmask.verbs.fill",
        "unmask.models.checkpoint",
    } <= names
    assert not names & (FOR_OTHER_WORK | {"unmask.verbs.sample", "unmask.verbs.generate"})


@pytest.mark.parametrize(
    ("command", "needed"), [("score", "unmask.scoring"), ("compare", "unmask.joints.reading")]
)
def test_other_short_commands_load_nothing_for_other_work(command, needed):
    names = loaded(
        command,
        "The [MASK] [MASK] sat." if command == "compare" else "The dog sat.",
        *EIGHT[command],
    )
    assert {"torch", needed} <= names
    assert not names & (FOR_OTHER_WORK - {"unmask.sampling"})


@pytest.mark.parametrize(("args", "code"), [(("--version",), 0), (("fill",), 2)])
def test_what_is_registered_for_the_end_runs_and_the_exit_code_stays(args, code):
    """The process ends without taking down its modules, after everything that Python promises
    to run.
    """
    registered = "atexit.register(print, 'early', end='!'); import threading; "
    late = (
        "threading.Thread(target=lambda: (threading.main_thread().join(),"
        " print('thread'))).start(); "
    )
    kept = "Kept = type('Kept', (), {'__del__': lambda self: print('taken down')}); kept = Kept(); "
    program = (
        f"import atexit; {kept}{registered}{late}import unmask.__main__; unmask.__main__.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *args], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == code
    assert done.stdout.endswith("thread\nearly!")


@pytest.mark.parametrize("command", ["fill", "sample", "score", "evaluate", "train"])
def test_the_help_of_a_command_reads_its_signature_only(command):
    """Registries name what there is to choose from; neither the model nor the work is loaded."""
    names = loaded(*command.split(), "--help")
    assert VERBS[command] in names
    assert not names & (
        HEAVY
        | {
            "unmask.surfaces.cli.printing",
            "unmask.models.masked_lm",
            "unmask.sampling.target",
            "unmask.tables.unary",
        }
    )
