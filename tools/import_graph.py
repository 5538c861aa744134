"""The import graph between the rooms of src/unmask: checked against their order, and drawn.

    python tools/import_graph.py [FIGURE]     prints imports against the order, and cycles of
                                              modules; exits with 1 if any

An import counts wherever it stands: at the top, inside a function, for types only, or as a
"module:attribute" string. Two kinds of fault are told: an import of a room that is not to the
left, and modules whose top-level imports go in a circle.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "unmask"
ORDER: tuple[str, ...] = (
    "common",
    "runs",
    "models",
    "tables",
    "joints",
    "sampling",
    "scoring",
    "studies.variants",
    "studies.translation",
    "studies.evaluation",
    "studies.training",
    "studies.lab",
    "testing",
    "verbs",
    "surfaces.integrations",
    "surfaces.serving",
    "surfaces.cli",
)
"""Left to right: a room may import those to its left. `verbs.serve`, which starts the
page, counts as serving.
"""
ENTRY_POINTS = f"{PACKAGE}.methods"  # A group of entry points: no module has this name
PARTED = ("studies", "surfaces")
"""Folders whose parts are rooms of their own in ORDER."""
DOTTED = re.compile(rf"{PACKAGE}(\.\w+)+(:\w+)?")
SOURCE = Path(__file__).parents[1] / "src" / PACKAGE


@dataclass(frozen=True)
class Import:
    """One module naming another; `at_once` if it is loaded as soon as the first is."""

    module: str
    imported: str
    line: int
    at_once: bool

    @property
    def rooms(self) -> tuple[str, str]:
        return room(self.module), room(self.imported)


def room(module: str) -> str:
    """ "unmask.joints.joint" is in "joints"; the package itself is in ""."""
    if module == "unmask.verbs.serve":
        return "surfaces.serving"
    parts = module.split(".")[1:]
    if parts and parts[0] in PARTED:
        return ".".join(parts[:2])
    return parts[0] if parts else ""


def imports(source: Path) -> list[Import]:
    """Every import of the package by its own modules, the public names of the package itself
    apart.
    """
    modules = {_dotted(path, source): path for path in sorted(source.rglob("*.py"))}
    found = []
    for name, path in modules.items():
        if name not in (PACKAGE, f"{PACKAGE}.__main__"):
            for target, line, at_once in _named(ast.parse(path.read_text()), modules):
                found.append(Import(name, target, line, at_once))
    return found


def faults(found: Sequence[Import]) -> list[str]:
    """Imports against the order, and cycles of modules, one line each."""
    place = {name: i for i, name in enumerate(ORDER)}
    lines = []
    for one in found:
        here, there = one.rooms
        if here == there or not there:
            continue
        unknown = [name for name in (here, there) if name not in place]
        if unknown:
            lines.append(
                f"{one.module}:{one.line} is or imports {unknown[0]}, which has no place in ORDER"
            )
        elif place[there] > place[here]:
            lines.append(
                f"{one.module}:{one.line} imports {one.imported}: {there} is not to the left of"
                f" {here}"
            )
    return lines + [f"modules in a circle: {' -> '.join(cycle)}" for cycle in cycles(found)]


def cycles(found: Sequence[Import]) -> list[list[str]]:
    """Circles of modules that load each other at once, each told once, beginning with the first
    name.
    """
    after: dict[str, list[str]] = {}
    for one in found:
        if one.at_once and one.module != one.imported:
            after.setdefault(one.module, []).append(one.imported)
    told: dict[frozenset[str], list[str]] = {}

    def walk(module: str, path: list[str], done: set[str]) -> None:
        if module in path:
            circle = path[path.index(module) :]
            first = circle.index(min(circle))
            told.setdefault(frozenset(circle), [*circle[first:], *circle[:first], circle[first]])
        elif module not in done:
            for target in after.get(module, ()):
                walk(target, [*path, module], done)
            done.add(module)

    done: set[str] = set()
    for module in sorted(after):
        walk(module, [], done)
    return list(told.values())


def draw(found: Sequence[Import], path: Path) -> None:
    """The rooms on a line in their order, and an arc from every room to each that it imports,
    as wide as there are many.
    """
    from matplotlib import rcParams
    from matplotlib.figure import Figure
    from matplotlib.patches import Arc

    rcParams["svg.hashsalt"] = PACKAGE
    label = {name: name.replace(".", ".\n") for name in ORDER}
    counts = Counter((label[a], label[b]) for a, b in (one.rooms for one in found) if a != b and b)
    present = {name for pair in counts for name in pair}
    line = [name for name in dict.fromkeys(label.values()) if name in present]
    figure = Figure(figsize=(13, 6), layout="constrained")
    panel = figure.subplots()
    for (here, there), count in sorted(counts.items()):
        if here != there:
            x, u = line.index(here), line.index(there)
            shape = {"width": abs(x - u), "height": 0.9 * abs(x - u), "theta1": 0, "theta2": 180}
            style = {"color": f"C{x % 10}"} if x > u else {"color": "red", "linestyle": "--"}
            panel.add_patch(
                Arc(
                    ((x + u) / 2, 0.35),
                    **shape,
                    **style,
                    linewidth=0.6 + 0.5 * count**0.5,
                    alpha=0.8,
                )
            )
    for x, name in enumerate(line):
        panel.text(
            x,
            0,
            name,
            ha="center",
            va="center",
            fontsize=8,
            bbox={"boxstyle": "round,pad=0.3", "fc": "white"},
        )
    panel.set_xlim(-0.6, len(line) - 0.4)
    panel.set_ylim(-0.5, 0.5 * len(line))
    panel.set_axis_off()
    panel.set_title(
        "Which room imports which: an arc has the colour of its right end, the room that imports",
        fontsize=10,
    )
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def _dotted(path: Path, source: Path) -> str:
    parts = [PACKAGE, *path.relative_to(source).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _named(tree: ast.Module, modules: dict[str, Path]) -> Iterator[tuple[str, int, bool]]:
    """(module, line, whether it is loaded at once) for everything of the package that the tree
    names.
    """
    waiting = [(node, True) for node in tree.body]
    while waiting:
        node, at_once = waiting.pop(0)
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == PACKAGE:
                    yield alias.name, node.lineno, at_once
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == PACKAGE:
            for alias in node.names:
                inside = f"{node.module}.{alias.name}"
                yield inside if inside in modules else str(node.module), node.lineno, at_once
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and DOTTED.fullmatch(node.value)
            and node.value != ENTRY_POINTS
        ):
            yield node.value.split(":")[0], node.lineno, False
        later = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or _for_types(
            node
        )
        waiting += [(child, at_once and not later) for child in ast.iter_child_nodes(node)]


def _for_types(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.If)
        and isinstance(node.test, ast.Name)
        and node.test.id == "TYPE_CHECKING"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("figure", nargs="?", type=Path)
    figure = parser.parse_args().figure
    graph = imports(SOURCE)
    wrong = faults(graph)
    print(*(wrong or [f"{len(graph)} imports between modules, none against the order"]), sep="\n")
    if figure is not None:
        draw(graph, figure)
    sys.exit(bool(wrong))
