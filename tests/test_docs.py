"""Every block of README and docs/ runs as pasted and prints what is shown, or says why not;
every link leads somewhere.
"""

import ast
import os
import re
import runpy
import tomllib
from functools import cache
from inspect import signature
from pathlib import Path

import pytest

import unmask
from unmask.common.border.options import options
from unmask.joints.constructions.construction import CONSTRUCTIONS
from unmask.sampling.decoders.decoder import DECODERS
from unmask.sampling.kernels.kernel import KERNELS
from unmask.sampling.methods import METHODS
from unmask.scoring.scores.score import SCORES
from unmask.studies.training.masking.scheme import SCHEMES

ROOT = Path(__file__).parents[1]
SHOWN = runpy.run_path(str(ROOT / "tools" / "shown.py"), run_name="shown")
DOCUMENTS, REASONS, Session = SHOWN["DOCUMENTS"], SHOWN["REASONS"], SHOWN["Session"]
blocks, commands, same, simple_commands = (
    SHOWN[name] for name in ("blocks", "commands", "same", "simple_commands")
)
QUESTION = re.compile(
    r"unmask (fill|compare|score|dependence)"
    r" (?!.*(\$|--(model|file|out|figure|pairs|profile)|\.txt|\.csv|>))"
)
"""Commands that print and do nothing else: one that several documents show is run once."""
answered = cache(Session().command)
PAGES = {document: blocks(document.read_text()) for document in DOCUMENTS}
CLAIMS = {document: SHOWN["claims"](document.read_text()) for document in DOCUMENTS}


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def pages_with(reason: str) -> list[Path]:
    return [
        document
        for document in DOCUMENTS
        if any(one.reason == reason for one in PAGES[document] + CLAIMS[document])
    ]


def paste(document: Path, *reasons: str) -> None:
    """Run the blocks of a page that need nothing, or what is named, and compare what they
    print; so with numbers in prose.
    """
    session = Session()
    hold_numbers(session, document, 0, reasons)
    for number, block in enumerate(PAGES[document], 1):
        paste_block(session, block, reasons)
        hold_numbers(session, document, number, reasons)


def hold_numbers(session: Session, document: Path, after: int, reasons: tuple[str, ...]) -> None:
    """Hold the numbers in the prose after so many blocks to what their commands print."""
    for claim in CLAIMS[document]:
        if claim.after == after and claim.command and claim.reason in ("", *reasons):
            came = (
                answered(claim.command)
                if QUESTION.match(claim.command)
                else session.command(claim.command)
            )
            missing = [number for number in claim.numbers if not SHOWN["has_number"](came, number)]
            assert not missing, f"{claim.command}\nprints no {', '.join(missing)}:\n{came}"


def paste_block(session: Session, block, reasons: tuple[str, ...]) -> None:
    """Run a block that needs nothing, or what is named, and compare what it prints."""
    if block.reason not in ("", *reasons):
        return
    if block.kind == "python" or block.shown is not None:
        came = session.run(block)
        assert block.shown is None or not block.compared or same(block.shown, came), (
            f"{block.code}\n{came}"
        )
        return
    for command, output in commands(block):
        came = answered(command) if QUESTION.match(command) else session.command(command)
        assert block.kind == "bash" or not block.compared or same(output, came), (
            f"$ {command}\n{came}"
        )


@pytest.fixture(autouse=True)
def nothing_brought():
    """What a page brings of own code is forgotten after it."""
    yield
    for registry in (CONSTRUCTIONS, KERNELS, DECODERS, METHODS, SCORES, SCHEMES):
        registry.brought.clear()
    options.cache_clear()


@pytest.mark.parametrize("document", pages_with(""), ids=name)
def test_what_is_pasted_prints_what_is_shown(document, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    paste(document)


@pytest.mark.slow
@pytest.mark.parametrize("document", pages_with("takes long"), ids=name)
def test_what_takes_long_prints_what_is_shown(document, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    paste(document, "takes long")


@pytest.mark.real
@pytest.mark.parametrize("document", pages_with("needs AntiBERTy"), ids=name)
def test_what_needs_antiberty_prints_what_is_shown(document, tmp_path, monkeypatch):
    """The line that downloads AntiBERTy finds what `make test-real` has downloaded."""
    for variable, value in SHOWN["downloaded_antiberty"](os.environ["UNMASK_ANTIBERTY"]).items():
        monkeypatch.setenv(variable, value)
    monkeypatch.chdir(tmp_path)
    paste(document, "needs AntiBERTy")


def test_the_first_pages_show_something_and_all_of_it_runs():
    for document in ("README.md", "docs/index.md", "docs/tutorial.md"):
        reasons = {block.reason for block in PAGES[ROOT / document]}
        assert "" in reasons, document
        assert reasons <= {
            "",
            "sets up",
            "needs a download",
            "needs AntiBERTy",
        }, document


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_every_block_has_a_kind_and_none_is_indented_only(document):
    fences = re.findall(r"^ *```(.*)\n(?:.*\n)*?^ *```$", document.read_text(), re.MULTILINE)
    assert set(fences) <= set(SHOWN["KINDS"]), "name the kind of a block, so that commands are run"
    outside = re.sub(r"^ *```.*?^ *```$", "", document.read_text(), flags=re.DOTALL | re.MULTILINE)
    assert not re.findall(r"^\n    +(?!<!--)\S.*", outside, re.MULTILINE), (
        "put a block between fences, so that commands are run"
    )


def test_every_reason_is_needed():
    assert {block.reason for page in PAGES.values() for block in page} == {"", *REASONS}


def refuse_unknown_arguments(tree: ast.AST) -> None:
    """Raise if a call `unmask.NAME(...)` has an argument that the function, or class, does not
    take.
    """
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and (
            called := re.fullmatch(r"unmask\.(\w+)", ast.unparse(call.func))
        ):
            signature(getattr(unmask, called[1])).bind_partial(
                **{one.arg: None for one in call.keywords if one.arg}
            )


FILE = re.compile(r"[\w./*?-]+\.(?:txt|xz|gz|jsonl?|csv|fasta|conllu|de|en|pt|pdb|parquet|py)")
TABLE = (ROOT / "docs" / "results.md").read_text().partition("## The data")[2]


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_blocks_that_are_not_run_could_be(document, monkeypatch):
    """Their commands parse, their calls have known arguments; the page or docs/results.md
    explains files that they name.
    """
    monkeypatch.syspath_prepend(ROOT / "docs" / "examples")
    text, earlier = document.read_text(), ""
    explained = set(
        FILE.findall(
            " ".join(
                re.findall(
                    r"`[^`\n]+`",
                    re.sub(r"^ *```.*?^ *```$", "", text, flags=re.DOTALL | re.MULTILINE),
                )
            )
        )
    )
    for block in PAGES[document]:
        if block.reason and block.kind == "python":
            tree = ast.parse(block.code)
            refuse_unknown_arguments(tree)
            tree.body = [
                line for line in tree.body if isinstance(line, ast.ImportFrom | ast.Import)
            ]
            exec(compile(tree, "imports", "exec"), {})
        for command, _ in commands(block) if block.reason else ():
            for words in simple_commands(command):
                SHOWN["parse"](words)
            earlier += "\n" + " ".join(
                re.findall(r"(?:--(?:out|save|figure|work)|>>?) (\S+)", command)
            )
            read = {
                file
                for word in command.split()
                if "://" not in word
                for file in FILE.findall(word.rpartition("=")[2])
            }
            unknown = {
                file
                for file in read - explained
                if file not in earlier + TABLE and not (ROOT / file).exists()
            }
            assert not unknown, f"{command}: say where {', '.join(sorted(unknown))} comes from"
        earlier += block.code


@pytest.mark.parametrize(
    "wrong",
    [
        "unmask fill --tip 3",
        "unmask lab masking --nosites 5",
        "make nothing",
        "python bench/blimp.py blimp --nothing",
        "python bench/no.py",
    ],
)
def test_a_command_with_a_mistake_does_not_parse(wrong, capsys):
    with pytest.raises(Exception, match=r"is not an option|nothing|bench/no\.py"):
        SHOWN["parse"](wrong.split())


def test_commands_of_a_page_share_a_folder_and_variables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    session = Session()
    lines = (
        'NAME=casino\nunmask fill "The $NAME [MASK]." --top 1 --json > out.json\nhead -2 \\\n '
        " out.json | tail -1\n"
    )
    (block,) = blocks(f"```bash\n{lines}```\n")
    assert session.run(block) == '  "text": "The casino [MASK].",\n'
    with pytest.raises(AssertionError, match="false"):
        session.command("false && true")


def test_a_block_can_be_the_content_of_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (block,) = blocks("<!-- the file: my.py -->\n```python\nraise SystemExit\n```\n")
    assert Session().run(block) == ""
    assert Path("my.py").read_text() == "raise SystemExit\n"


def test_blocks_are_found_changed_and_left_out():
    text = "<!-- in the tests: n=9 -> n=1; k=8 -> k=2 -->\n```python\nf(n=9, k=8)\n```\n"
    text += (
        "<!-- not run: needs R -->\n```python\ng()\n```\n\n```text\n3\n```\n\n```console\n$ unmask"
        " fill\nx\n```\n"
    )
    text += (
        "- a list\n\n    <!-- not run: needs a GPU -->\n    <!-- not compared: a clock -->\n   "
        " ```bash\n    date\n    ```\n"
    )
    parsed = blocks(text)
    assert [
        (block.kind, block.changed, block.reason, block.shown, block.compared) for block in parsed
    ] == [
        ("python", "f(n=1, k=2)\n", "", None, False),
        ("python", "g()\n", "needs R", "3\n", True),
        ("console", "$ unmask fill\nx\n", "", None, True),
        ("bash", "date\n", "needs a GPU", None, False),
    ]
    with pytest.raises(AssertionError, match="'m=9' is not in the block"):
        blocks("<!-- in the tests: m=9 -> m=1 -->\n```python\nf(n=9)\n```\n")
    with pytest.raises(AssertionError, match="'slow' is not one of takes long"):
        blocks("<!-- not run: slow -->\n```python\nf()\n```\n")


@pytest.mark.parametrize(
    ("shown", "came", "equal"),
    [
        ("29.22 %  -1.23  violin", "29.23 %   -1.23  violin", True),
        ("29.22 %  violin", "31.00 %  violin", False),
        ("29.22 %  violin", "29.22 %  drums", False),
        ("0.0079 %", "0.0078 %", True),
        ("0.0079 %", "0.079 %", False),
        ("7 passes", "9 passes", False),
        ("1 2", "1", False),
        ("...\nb 2\n", "a 1\nb 2\n", True),
        ("...\nb 2\n", "a 1\nb 3\n", False),
    ],
)
def test_outputs_are_compared_by_words_and_numbers(shown, came, equal):
    assert same(shown, came) is equal


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_numbers_in_prose_are_those_shown_above(document):
    for claim in CLAIMS[document]:
        for number in claim.numbers if not claim.command else ():
            assert SHOWN["has_number"](claim.above, number), f"no output above has {number}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_commands_that_prove_numbers_could_be_run(document):
    for claim in CLAIMS[document]:
        for words in simple_commands(claim.command) if claim.reason else ():
            SHOWN["parse"](words)


@pytest.mark.parametrize(
    ("written", "output", "there"),
    [
        ("1,321", "three residues: 1321 passes", True),
        ("1,241", "three residues: 1,321 passes", False),
        ("117", "120 tokens", False),
        ("16.3", "S31D+A33Y  -16.315", True),
        ("16.5", "S31D+A33Y  -16.315", False),
        ("0.81", "rho 0.804", True),
        ("0.82", "rho 0.804", False),
        ("7", "", False),
    ],
)
def test_a_number_in_prose_is_found_in_an_output(written, output, there):
    assert SHOWN["has_number"](output, written) is there


def test_numbers_in_prose_are_read_with_what_proves_them():
    text = (
        "```console\n$ unmask fill --top 9\nrank 4.25\n```\n\n<!-- numbers 4.3: shown above"
        " -->\nRank 4.3 of 12.\n\n"
    )
    text += (
        "<!-- not run: takes long -->\n<!-- numbers 1,321; 41: python -c 'print(41)' -->\n| 41 |"
        " 1,321 |\n"
    )
    shown, printed = SHOWN["claims"](text)
    assert (shown.numbers, shown.command, shown.above, shown.after) == (
        ("4.3",),
        "",
        "rank 4.25\n",
        1,
    )
    assert (printed.numbers, printed.command, printed.reason) == (
        ("1,321", "41"),
        "python -c 'print(41)'",
        "takes long",
    )
    with pytest.raises(AssertionError, match="has no 5"):
        SHOWN["claims"]("<!-- numbers 5: shown above -->\nFour.\n")


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_links_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
        assert (document.parent / target).exists(), target


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_blanks_side_by_side_are_code(document):
    """In prose Markdown takes [MASK] [MASK] for a link."""
    text = re.sub(
        r"<!--.*?-->|^```.*?^```$|`[^`\n]*`|^    .*$",
        "",
        document.read_text(),
        flags=re.DOTALL | re.MULTILINE,
    )
    assert not re.search(r"\[[A-Z]+\] ?\[[A-Z]+\]", text), "put the text into backticks"


def test_every_dependency_is_explained():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    page = (ROOT / "docs" / "dependencies.md").read_text()
    extras = project["optional-dependencies"]
    for entry in [*project["dependencies"], *(one for extra in extras.values() for one in extra)]:
        package = re.match(r"[\w-]+", entry)[0]
        assert package == "unmask" or re.search(rf"\b{package}\b", page), package
    assert all(f"`{extra}`" in page for extra in extras)


ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text("utf-8")


def test_the_layout_names_files_and_folders_that_exist():
    source = ROOT / "src" / "unmask"
    files = re.findall(r"`(\w+/[\w/]+\.py)`", ARCHITECTURE)
    assert len(files) > 12
    assert [file for file in files if not (source / file).is_file()] == []
    folders = re.findall(r"`(\w+/\w+/)`", ARCHITECTURE)
    assert len(folders) > 3
    assert [folder for folder in folders if not (source / folder).is_dir()] == []


def test_the_walk_of_fill_names_what_its_files_define():
    steps = re.findall(r"^\| (\d+) \| `(\S+)` \| (.*?) \|", ARCHITECTURE, re.MULTILINE)
    assert [int(number) for number, _, _ in steps] == list(range(1, len(steps) + 1))
    assert len(steps) > 5
    for _, file, read in steps:
        text = (ROOT / "src" / "unmask" / file).read_text("utf-8")
        for one in re.findall(r"`(\w+)`", read):
            assert re.search(rf"^ *(def|class) {one}\b|^{one} =", text, re.MULTILINE), (file, one)
