"""Every score keeps the laws of scores; a score that breaks one is found, and told which."""

import pytest
import torch

import unmask
from unmask.sampling.methods import with_law
from unmask.scoring.registry import with_names
from unmask.scoring.scores.decoder_law import DecoderLaw
from unmask.scoring.scores.score import Scored
from unmask.tables.conditionals import Conditionals, regular_tokens
from unmask.testing import check_score

SCORES = [score() for score in with_names().values()] + [DecoderLaw(name) for name in with_law()]


@pytest.mark.filterwarnings("ignore:.*no dependence profile")
@pytest.mark.parametrize("score", SCORES, ids=lambda score: score.name)
def test_every_score_keeps_the_laws(score):
    check_score(score)


class Independent(unmask.Score):
    """sum over t of log q(x_t | nothing revealed), q over the regular tokens"""

    probability = True
    by_token = True
    why = "a product of distributions"

    def compute(self, model, batch, progress=None):
        hidden = batch.ids.scatter(1, batch.sites, model.mask_id)
        tokens = batch.ids.gather(1, batch.sites)
        return Conditionals(model, self.support(model)).log_q(hidden, batch.sites, tokens)

    def support(self, model):
        return regular_tokens(model)


@unmask.method
class Right(Independent):
    """sum over t of log q(x_t | nothing revealed), q over the regular tokens"""


@unmask.method
class OverAllTokens(Independent):
    """q over special tokens, too, which no text has"""

    def support(self, model):
        return torch.arange(model.vocab_size)


@unmask.method
class TheOtherWay(Independent):
    """says that lower is better, but its values rise with the probability"""

    probability = False
    better = -1


@unmask.method
class NoDirection(Independent):
    """better is neither 1 nor -1"""

    better = 0


@unmask.method
class ByRank(Independent):
    """the rank of a text among those beside it"""

    probability = False
    by_token = False

    def compute(self, model, batch, progress=None):
        return super().compute(model, batch).sum(1).argsort().argsort().double()


@unmask.method
class OwnDraw(Independent):
    """noise that no seed decides"""

    probability = False

    def compute(self, model, batch, progress=None):
        return super().compute(model, batch) + torch.rand(batch.sites.shape)


@unmask.method
class SharesOfOthers(Independent):
    """shares that do not add up"""

    def compute(self, model, batch, progress=None):
        by_site = super().compute(model, batch)
        return Scored(by_site.sum(1), by_site / 2)


@unmask.method
class OneNumberTooFew(Independent):
    """a score by token without its shares"""

    def compute(self, model, batch, progress=None):
        return super().compute(model, batch).sum(1)


@unmask.method
class NotANumber(Independent):
    """0 / 0"""

    def compute(self, model, batch, progress=None):
        return super().compute(model, batch) * torch.nan


@unmask.method
class NoColumn(Independent):
    """it promises a further column"""

    extra = ("error",)

    def compute(self, model, batch, progress=None):
        by_site = super().compute(model, batch)
        return Scored(by_site.sum(1), by_site)


@unmask.method
class HalfAPass(Independent):
    """a cost that is no number of passes"""

    def cost(self, sites):
        return sites / 2


def test_a_score_of_ones_own_keeps_them():
    check_score(Right())


@pytest.mark.parametrize(
    ("score", "law"),
    [
        (OverAllTokens(), "over-all-tokens says that it is a probability, but .* sums to 0"),
        (TheOtherWay(), "says that lower values are better, but"),
        (NoDirection(), "does not say which values are better"),
        (ByRank(), "depends on the texts beside it"),
        (OwnDraw(), "changes from call to call"),
        (SharesOfOthers(), "its shares do not add up to it"),
        (OneNumberTooFew(), r"returned numbers of shape \(27,\): return \(27, 3\)"),
        (NotANumber(), "is not finite"),
        (NoColumn(), "returned numbers of shape None"),
        (HalfAPass(), "costs 1.5 passes"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_broken_law_is_found_and_told(score, law):
    with pytest.raises(AssertionError, match=law):
        check_score(score)
