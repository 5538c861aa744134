"""The scores that a user names."""

from unmask.scoring.registry import SEVERAL, each_once


def named_scores(scores):
    """The scores of names or objects, as `unmask.score` reads them; each once."""
    return each_once(SEVERAL.accepted("score", scores))
