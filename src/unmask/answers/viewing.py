"""A filling in a notebook as the page draws it: the map of two blanks, in which a word can be pinned (extra `notebook`)."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Any

from unmask.answers.pair_map import pair_map, told_dependence
from unmask.errors import InputError
from unmask.joints import Joint
from unmask.joints.compatibility import compatibility

DRAWING = files("unmask.answers") / "drawing"
MODULES = ("dom.js", "heatmap.js", "bars.js", "notebook.js")
STYLES = ("palette.css", "figures.css")


def pair_view(joint: Joint, product: Joint, shown: int = 14) -> Any:
    """A widget with the map of two blanks; its `pin` is None or [blank, token id], its `map` what is drawn."""
    try:
        import anywidget
        import traitlets
    except ImportError:
        raise InputError("the view needs anywidget, which is not installed: pip install 'unmask[notebook]'") from None

    class PairView(anywidget.AnyWidget):  # type: ignore[misc]
        _esm = one_module()
        _css = "\n".join((DRAWING / name).read_text().replace(":root", ".unmask") for name in STYLES)
        map = traitlets.Dict().tag(sync=True)
        summary = traitlets.Unicode().tag(sync=True)
        pin = traitlets.List(traitlets.Int(), default_value=None, allow_none=True).tag(sync=True)

    def draw(change: Any = None) -> None:
        view.map = pair_map(joint, product, shown, None if view.pin is None else (view.pin[0], view.pin[1])).to_dict()

    view = PairView(summary=told_dependence(joint, compatibility(joint.tables)))
    draw()
    view.observe(draw, "pin")
    return view


def one_module() -> str:
    """The page's modules as one, which is what a notebook takes: without the imports between them."""
    sources = [re.sub(r"^import .*\n", "", (DRAWING / name).read_text(), flags=re.MULTILINE) for name in MODULES]
    return "\n".join(re.sub(r"^export (?!default)", "", source, flags=re.MULTILINE) for source in sources)
