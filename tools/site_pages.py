"""For mkdocs: pages of the site that are not files in docs/.

Files of the repository become pages, and links to them lead there. Tables of methods are made from
the registries (`tools/method_tables.py`). `options.md` lists the
options of every command, from the signatures of the functions; `schemas/NAME.json` is the JSON
schema of a result, from its types.
"""

from __future__ import annotations

import re
import runpy
import sys
from inspect import get_annotations, isfunction
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from types import SimpleNamespace
from typing import Any, get_type_hints

ROOT = Path(__file__).parents[1]
DOCS = "docs"
PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "src/unmask/models/bundled/english/README.md": "model-card.md",
}
"""File of the repository to page of the site."""
LINK = re.compile(r"(\]\()([^)#:\s]+)(#[^)\s]*)?(\))")


def site_path(target: str) -> str:
    """Where the site has a file of the repository: its page, or its place in docs/."""
    return PAGES.get(target) or PurePosixPath(target).relative_to(DOCS).as_posix()


def with_links_of_the_site(text: str, source: str, page: str) -> str:
    """`text` of the repository's file `source`, with its links as they must be on `page` of the
    site.
    """

    def moved(match: re.Match[str]) -> str:
        target = normpath(PurePosixPath(source).parent / match[2])
        if target not in PAGES and (source not in PAGES or not target.startswith(f"{DOCS}/")):
            return match[0]
        return (
            match[1]
            + relpath(site_path(target), PurePosixPath(page).parent)
            + (match[3] or "")
            + match[4]
        )

    return LINK.sub(moved, text)


def option_tables() -> str:
    """Every option of every command: the page `options.md`."""
    from unmask.common.border.declarations import summary
    from unmask.surfaces.cli.lab import COMMANDS
    from unmask.verbs import VERBS, verb

    parts = [
        "# Options of every command",
        "From the signatures; `unmask COMMAND --help` prints the same.",
    ]
    functions = {name: verb(name) for name in VERBS} | {
        f"lab {name}": study for name, study in COMMANDS.items()
    }
    for name, function in functions.items():
        parts += [f"## unmask {name.replace('_', '-')}", summary(function), option_table(function)]
    return "\n\n".join(parts) + "\n"


def option_table(function: Any) -> str:
    """The options of a function: name, meaning, the methods that have it."""
    from unmask.common.border.options import options
    from unmask.surfaces.cli.command import default_text

    lines = ["| option | meaning | of |", "| --- | --- | --- |"]
    for option in options(function):
        name = option.name.upper() if option.positional else f"--{option.name.replace('_', '-')}"
        meaning = (option.help + default_text(option)).replace("|", "\\|").replace("*", "\\*")
        lines.append(f"| `{name}` | {meaning} | {', '.join(option.readers)} |")
    return "\n".join(lines)


def schemas() -> dict[str, str]:
    """The JSON schema of every public result, by the name of its class."""
    import json

    import unmask
    from unmask.common.results import Result

    values = {name: getattr(unmask, name) for name in unmask.__all__}
    results = {
        name: one
        for name, one in values.items()
        if isinstance(one, type) and issubclass(one, Result)
    }
    return {name: json.dumps(schema(one), indent=2) for name, one in results.items()}


def schema(kind: type) -> dict[str, Any]:
    """The JSON schema of a class of results: the types of its fields, and of what its
    properties return.
    """
    from pydantic import ConfigDict, TypeAdapter, create_model

    from unmask.common.results import keys

    optional = getattr(kind, "OPTIONAL", ())
    members = {
        key: (type_in_json(kind, attribute), None if key in optional else ...)
        for key, attribute in keys(kind).items()
    }
    model = create_model(
        kind.__name__, __config__=ConfigDict(arbitrary_types_allowed=True), **members
    )
    return dict(TypeAdapter(model).json_schema(mode="serialization"))


def type_in_json(kind: type, name: str) -> Any:
    """The type that an attribute has in JSON; anything where its annotation is a class that
    JSON shows by name.
    """
    attribute = getattr(kind, name, None)
    function = getattr(attribute, "fget", None) or getattr(
        attribute, "func", None
    )  # of a property, or a cached one
    if isfunction(attribute):
        function = attribute  # JSON has what a method such as `verdict` returns
    try:
        if function is not None:
            hint = get_type_hints(function)["return"]
        else:
            hint = type_of_field(kind, name)
    except (NameError, KeyError):
        return Any
    return (
        hint if getattr(hint, "__module__", "builtins") in ("builtins", "typing", "types") else Any
    )


def type_of_field(kind: type, name: str) -> Any:
    """The type of one field; those of the others may name classes that are imported for type
    checkers alone.
    """
    for cls in kind.__mro__:
        annotations = get_annotations(cls)
        if name in annotations:
            alone = SimpleNamespace(__annotations__={name: annotations[name]})
            return get_type_hints(alone, vars(sys.modules[cls.__module__]))[name]
    raise KeyError(name)


def on_files(files: Any, config: Any) -> Any:
    """Add the pages."""
    from mkdocs.structure.files import File

    for source, page in PAGES.items():
        text = with_links_of_the_site((ROOT / source).read_text(encoding="utf-8"), source, page)
        files.append(File.generated(config, page, content=text))
    files.append(File.generated(config, "options.md", content=option_tables()))
    for name, text in schemas().items():
        files.append(File.generated(config, f"schemas/{name}.json", content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Make the tables of methods, and turn links out of docs/ into links to the pages."""
    if page.file.generated_by:
        return markdown
    tables = runpy.run_path(str(ROOT / "tools" / "method_tables.py"), run_name="method_tables")
    whole: str = tables["with_tables"](markdown)
    return with_links_of_the_site(whole, f"{DOCS}/{page.file.src_uri}", page.file.src_uri)
