"""Scores of a list of variants in one call."""

from unmask.joints.registry import named
from unmask.studies.variants.assay_scores import TakesAssayScores, chosen_scores
from unmask.studies.variants.contexts import Contexts
from unmask.studies.variants.scores.chains import AnyOrderSites

TAKES = TakesAssayScores("unmask.studies.variants.assay_scores:ASSAY_SCORES", several=True)


def contexts_of(model, ids, sites, names, allowed, construction=None, **options):
    """The contexts of the scores with these names; `options` are those of any_order_sites."""
    scores = [
        AnyOrderSites(**options) if isinstance(score, AnyOrderSites) else score
        for score in TAKES.accepted("score", names)
    ]
    rule = None if construction is None else named(construction)
    return Contexts(model, ids, sites, chosen_scores(scores, rule).of_variants, allowed)


def variant_scores(*of_contexts, progress=None, **more):
    """`contexts_of(model, ids, sites, names, ...).scores(variants)`; variants come after sites."""
    model, ids, sites, variants, *rest = of_contexts
    return contexts_of(model, ids, sites, *rest, **more).scores(variants, progress)
