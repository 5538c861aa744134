"""The network that a run starts from: new, or read from a folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import nn

from unmask.common.errors import InputError, argument_name
from unmask.models.bert_checkpoint import read_own_bert
from unmask.models.checkpoint_files import Source
from unmask.models.encoder.bert import BertMaskedLM, BertShape
from unmask.models.text.tokenizer_checks import refuse_other_vocabulary
from unmask.models.text.word_pieces import load_word_pieces
from unmask.models.weight_checks import refuse_non_finite
from unmask.runs.fingerprint import fingerprint

if TYPE_CHECKING:
    from unmask.studies.training.settings import TrainSettings

INITIAL_DEVIATION = 0.02
TRAINED_FOLDER = "give a folder that `unmask train` wrote"


def new_model(settings: TrainSettings, vocab_size: int, pad: int = 0) -> BertMaskedLM:
    """A network with one type of segment and tied embeddings.

    Weights are normal of deviation 0.02, biases 0. They are drawn in the order in which Hugging
    Face's BertForMaskedLM draws its own (for the encoder and then for the head: torch's
    defaults, and the normals over them), so that a seed gives the model that it gives there.
    """
    shape = BertShape(
        vocab_size=vocab_size,
        hidden_size=settings.width,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        intermediate_size=4 * settings.width,
        hidden_act="gelu",
        max_position_embeddings=settings.max_length,
        type_vocab_size=1,
        layer_norm_eps=1e-12,
    )
    network = BertMaskedLM(shape).to_empty(device="cpu")
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(settings.seed)
        _draw(network.bert)
        _draw(network.cls)
        for name, parameter in network.named_parameters():
            if name.endswith("bias"):
                parameter.zero_()
        network.get_input_embeddings().weight[pad] = 0.0
    network.tie()
    return network


def _draw(part: nn.Module) -> None:
    """Draw the weights of a part: torch's defaults of all modules, then the normals over them."""
    drawn = [m for m in part.modules() if isinstance(m, nn.Linear | nn.Embedding | nn.LayerNorm)]
    for module in drawn:
        module.reset_parameters()
    for module in drawn:
        if not isinstance(module, nn.LayerNorm):
            module.weight.normal_(0.0, INITIAL_DEVIATION)


@dataclass(frozen=True)
class Start:
    """A model to start from.

    network   in float32; the run trains it in place
    weights   the fingerprint of its first weights
    """

    folder: Path
    network: BertMaskedLM
    weights: str

    @classmethod
    def read(cls, folder: Path, causal: bool = False) -> Start:
        """The masked (or causal) language model of a folder.

        Raises InputError if it is not a BERT with a tokenizer.json.
        """
        if not (folder / "tokenizer.json").is_file():
            raise InputError(
                f"{str(folder)!r} has no tokenizer.json", argument="init", use=TRAINED_FOLDER
            )
        source = Source(str(folder))
        is_causal = bool(source.config.get("is_decoder"))
        if causal and not is_causal:
            raise InputError(
                f"{str(folder)!r} is not a causal model",
                argument="init",
                use=f"give one, or leave out {argument_name('objective', 'causal')}",
            )
        if is_causal and not causal:
            raise InputError(
                f"{str(folder)!r} is a causal model",
                argument="init",
                use=f"give a masked one, or {argument_name('objective', 'causal')}",
            )
        refuse_other_vocabulary(load_word_pieces(folder), source)
        network = read_own_bert(source, torch.float32, decoder=causal)
        if network is None or not _is_trainable(network.config):
            raise InputError(
                f"{str(folder)!r} is not a BERT (gelu, tied words)",
                argument="init",
                use=TRAINED_FOLDER,
            )
        refuse_non_finite(network, source.name)
        return cls(folder=folder, network=network, weights=fingerprint(network.state_dict()))

    @property
    def shape(self) -> dict[str, int]:
        """The settings that this model fixes."""
        config = self.network.config
        return {
            "layers": config.num_hidden_layers,
            "width": config.hidden_size,
            "heads": config.num_attention_heads,
            "vocab": config.vocab_size,
        }

    def refuse_longer_texts(self, max_length: int) -> None:
        """Raise InputError if texts of `max_length` tokens have more positions than the model."""
        positions = self.network.config.max_position_embeddings
        if max_length > positions:
            raise InputError(
                f"{max_length} is more than the {positions} positions of {str(self.folder)!r}",
                argument="max_length",
                use="give a smaller one, or leave it out",
            )

    def refuse_larger_vocabulary(self, vocab_size: int) -> None:
        """Raise InputError if tokens of the folder's tokenizer would have no embeddings."""
        embeddings = self.network.config.vocab_size
        if vocab_size > embeddings:
            raise InputError(
                f"{str(self.folder)!r} has a tokenizer of {vocab_size:,} tokens and a model of"
                f" {embeddings:,}",
                argument="init",
                use="give a folder with the tokenizer that the model was trained with",
            )


def _is_trainable(config: BertShape) -> bool:
    """Whether a BERT has the activation and the tied embeddings of `encoder`."""
    return config.hidden_act == "gelu" and config.tie_word_embeddings
