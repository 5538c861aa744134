"""Scores of a list of variants in one call."""

from unmask.studies.variants.contexts import Contexts


def variant_scores(model, ids, sites, variants, names, allowed, *rest, progress=None, **more):
    """`Contexts(...).scores(variants)`."""
    return Contexts(model, ids, sites, names, allowed, *rest, **more).scores(variants, progress)
