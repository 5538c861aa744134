"""For mkdocs: files of the repository that are no part of docs/ become pages of the site, and links to them lead there."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Any

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
    """`text` of the repository's file `source`, with its links as they must be on `page` of the site."""

    def moved(match: re.Match[str]) -> str:
        target = normpath(PurePosixPath(source).parent / match[2])
        if target not in PAGES and (source not in PAGES or not target.startswith(f"{DOCS}/")):
            return match[0]
        return match[1] + relpath(site_path(target), PurePosixPath(page).parent) + (match[3] or "") + match[4]

    return LINK.sub(moved, text)


def on_files(files: Any, config: Any) -> Any:
    """Add the pages."""
    from mkdocs.structure.files import File

    for source, page in PAGES.items():
        text = with_links_of_the_site((ROOT / source).read_text(encoding="utf-8"), source, page)
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn links out of docs/ into links to the pages."""
    return (
        markdown if page.file.generated_by else with_links_of_the_site(markdown, f"{DOCS}/{page.file.src_uri}", page.file.src_uri)
    )
