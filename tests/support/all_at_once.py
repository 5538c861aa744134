"""Scores of a list of variants in one call."""

from unmask.joints.registry import DEFAULT_OF_MUTANTS, named
from unmask.studies.variants.contexts import Contexts
from unmask.studies.variants.scores.score import chosen_variant_scores


def contexts_of(model, ids, sites, names, allowed, *rest, construction=DEFAULT_OF_MUTANTS, **more):
    """The contexts of the scores with these names."""
    scores = chosen_variant_scores(names, named(construction))
    return Contexts(model, ids, sites, scores, allowed, *rest, **more)


def variant_scores(*of_contexts, progress=None, **more):
    """`contexts_of(model, ids, sites, names, ...).scores(variants)`; variants come after sites."""
    model, ids, sites, variants, *rest = of_contexts
    return contexts_of(model, ids, sites, *rest, **more).scores(variants, progress)
