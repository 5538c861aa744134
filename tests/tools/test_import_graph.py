"""The order of the rooms holds in the source, and the tool that says so sees what is wrong in a
made-up one.
"""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOL = runpy.run_path(str(ROOT / "tools" / "import_graph.py"))


def tree(folder: Path, **modules: str) -> Path:
    """A made-up package; `joints__chain="..."` is joints/chain.py."""
    for name, text in modules.items():
        path = folder.joinpath(*name.split("__")).with_suffix(".py")
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text)
        (path.parent / "__init__.py").touch()
    return folder


def test_every_import_leads_to_the_left():
    imports = TOOL["imports"](ROOT / "src" / "unmask")
    assert len(imports) > 300
    assert TOOL["faults"](imports) == []


def test_what_the_order_allows(tmp_path):
    source = tree(
        tmp_path,
        joints__chain=(
            "from unmask.tables.unary import Tables\nfrom unmask.common.errors import InputError"
        ),
        tables__unary="import unmask.common.errors",
        common__checks="from unmask.common.errors import InputError",
        common__errors="",
        verbs__fill="from unmask.joints.registry import CHAIN",
        joints__registry="CHAIN = 'unmask.tables.unary:Tables'",
    )
    assert TOOL["faults"](TOOL["imports"](source)) == []


@pytest.mark.parametrize(
    ("module", "text", "fault"),
    [
        (
            "tables__unary",
            "from unmask.joints.chain import chain",
            "joints is not to the left of tables",
        ),
        (
            "tables__unary",
            "def f():\n    import unmask.joints.chain",
            "joints is not to the left of tables",
        ),
        (
            "tables__unary",
            "if TYPE_CHECKING:\n    from unmask.joints import chain",
            "joints is not to the left of tables",
        ),
        (
            "tables__unary",
            "RULE = 'unmask.joints.chain:chain'",
            "joints is not to the left of tables",
        ),
        (
            "joints__registry",
            "RULE = 'unmask.studies.training.loop:Trainer'",
            "studies.training is not to the left of joints",
        ),
        (
            "joints__chain",
            "from unmask.verbs.fill import fill",
            "verbs is not to the left of joints",
        ),
        (
            "studies__translation__space",
            "from unmask.studies.training.loop import Trainer",
            "studies.training is not to the left of studies.translation",
        ),
        ("attic__old", "from unmask.common.errors import InputError", "attic, which has no place"),
    ],
)
def test_an_import_against_the_order_is_told(tmp_path, module, text, fault):
    source = tree(
        tmp_path,
        **{"joints__chain": "", "studies__training__loop": "", "verbs__fill": "", module: text},
    )
    (line,) = TOOL["faults"](TOOL["imports"](source))
    assert fault in line
    assert line.startswith(f"unmask.{module.replace('__', '.')}:")


def test_a_circle_is_told_once_and_a_late_import_makes_none(tmp_path):
    source = tree(
        tmp_path,
        studies__lab__a="import unmask.studies.lab.b",
        studies__lab__b="import unmask.studies.lab.c",
        studies__lab__c="from unmask.studies.lab import a",
    )
    circle = " -> ".join(f"unmask.studies.lab.{name}" for name in "abca")
    assert TOOL["faults"](TOOL["imports"](source)) == [f"modules in a circle: {circle}"]
    (source / "studies" / "lab" / "c.py").write_text(
        "def f():\n    from unmask.studies.lab import a"
    )
    assert TOOL["faults"](TOOL["imports"](source)) == []
