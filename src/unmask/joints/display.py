"""How a joint shows itself: a data frame of its most probable fillings, and the same in a notebook."""

from __future__ import annotations

from html import escape
from math import exp
from typing import TYPE_CHECKING

from unmask.formats import percent_at_least
from unmask.joints.joint import Joint

if TYPE_CHECKING:
    import pandas

SHOWN = 10
"""Fillings in a notebook."""


def frame(joint: Joint, top: int) -> pandas.DataFrame:
    """The `top` fillings, best first: one column per site with its tokens, then log_prob and prob."""
    import pandas

    ids, scores = joint.topk(top)
    tokens = [[joint.label(i) for i in row] for row in ids.tolist()]
    found = pandas.DataFrame(tokens, columns=[f"blank_{t + 1}" for t in range(joint.sites)])
    found["log_prob"] = scores.tolist()
    found["prob"] = scores.double().exp().tolist()
    return found


def html(joint: Joint) -> str:
    """The construction, the number of fillings, the share of the product that the candidates hold, and the best fillings."""
    held = percent_at_least(exp(joint.tables.log_mass))
    share = f"; the candidates hold {held} of the product joint" if joint.tables.log_mass < 0 else ""
    fillings = " &times; ".join(map(str, joint.shape))
    heading = f"<p><b>{escape(joint.name)}</b> joint over {fillings} fillings{share}</p>"
    return heading + frame(joint, SHOWN).to_html(index=False)
