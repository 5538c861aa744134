"""Settings that no tensor's shape gives away, doubted: would the user's texts be likelier under another value?

The number of heads and the activation leave every shape as it is, so a wrong one in config.json loads and computes. With the same
weights, the mean over some masked positions of

    d = log q'(token | rest) - log q(token | rest)

between the network with another value, q', and the one that config.json states, q, is far below 0 where config.json is right. A
value for which it lies above 0 by more than its error is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from torch import Tensor

from unmask.models.encoder.bert import ACTIVATIONS, BertMaskedLM, BertShape
from unmask.models.masked_lm import MaskedLM

HEAD_WIDTHS = (16, 32, 64, 128)
ERRORS = 3.0
"""Standard errors above 0 that a difference must have."""

LogProbs = Callable[[MaskedLM], Tensor]
"""Log-probabilities of the masked tokens of some texts under a model."""


def doubts(model: MaskedLM, log_probs: LogProbs) -> Iterator[str]:
    """What to say of each setting with which the texts are likelier; only our own network can be changed so."""
    if not isinstance(model.network, BertMaskedLM):
        return
    stated = log_probs(model)
    for name, value, shape in _others(model.network.config):
        network = BertMaskedLM(shape)
        network.load_state_dict(model.network.state_dict(), assign=True)
        difference = log_probs(MaskedLM(network, model.tokenizer)) - stated
        error = float(difference.std()) / len(difference) ** 0.5
        if float(difference.mean()) > ERRORS * error:
            yield (
                f"with {name} {value} instead of {getattr(model.network.config, name)} the texts are likelier, by "
                f"{float(difference.mean()):.2f} nats per token: config.json may state it wrong"
            )


def _others(shape: BertShape) -> Iterator[tuple[str, object, BertShape]]:
    for width in HEAD_WIDTHS:
        heads, rest = divmod(shape.hidden_size, width)
        if not rest and heads != shape.num_attention_heads:
            yield "num_attention_heads", heads, replace(shape, num_attention_heads=heads)
    for activation in ("gelu", "relu"):
        if ACTIVATIONS[activation] is not ACTIVATIONS[shape.hidden_act]:
            yield "hidden_act", activation, replace(shape, hidden_act=activation)
