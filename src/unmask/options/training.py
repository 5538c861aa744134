"""Options of `train`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from unmask.options.kinds import Choice, File, Files, Flag, Real, Text, TwoFiles, Weights, Whole
from unmask.options.option import Fold, Options, Reads, grouped, option, output_row
from unmask.options.shared import LARGEST_SEED, Printed

ObjectiveName = Literal["masked", "causal"]
LossName = Literal["factorised", "block"]
OptimiserName = Literal["muon", "adamw"]
MANY = 10**9
"""More steps, rows or tokens than anyone waits for."""
MASKING = ("masking", "replacement", "loss", "compatibility")
PAIRS_ONLY = ("mask_source", "refinement")
MASKED_ONLY = (*MASKING, *PAIRS_ONLY)
SHAPE_AND_STEPS = (
    *("layers", "width", "heads", "vocab", "optimiser", "lr", "warmup", "batch_tokens"),
    *("weight_decay", "dropout"),
)
TEXTS_AND_VALIDATION = ("weight", "max_length", "valid_share")
PLAIN_MASKING, PAIRS_MASKING = "uniform:0.05-0.45", "uniform:0-1"
"""Where none is given. In translations every number of masked tokens is equally likely, none and all included."""
MOST_TOKENS = 1 << 24
TEXTS, PAIRS = "a CORPUS of texts", "--parallel SOURCE TARGET"
shape_row, cut_row, objective_row = map(grouped, ("Shape", "Texts", "Objective"))
optimisation_row, validation_row, run_row = map(grouped, ("Optimisation", "Validation", "Run"))


BY_SIZE = {"left_out": None, "otherwise": "by --size"}
BY_BOTH = {"left_out": None, "otherwise": "by --size and the data"}


@dataclass(frozen=True)
class Training(Options):
    """What decides the weights of a run; see `unmask.training.settings`."""

    reads: ClassVar[tuple[Reads, ...]] = (Reads("objective", {"masked": MASKED_ONLY, "causal": ()}),)

    layers: int = shape_row(6, Whole(1, 1024), "Encoder layers.", **BY_SIZE)
    width: int = shape_row(256, Whole(1, 1 << 16), "Hidden size.", **BY_SIZE)
    heads: int = shape_row(4, Whole(1, 1 << 10), "Attention heads.", **BY_SIZE)
    vocab: int = shape_row(8192, Whole(1, MOST_TOKENS), "Tokens of the vocabulary, where a tokenizer is trained.", **BY_BOTH)
    max_length: int = cut_row(128, Whole(8, 1 << 16), "Longest text in tokens, start and end tokens included.")
    objective: ObjectiveName = option("masked", Choice(get_args(ObjectiveName)), "masked, or causal (of the next token).")
    masking: str = objective_row(
        PLAIN_MASKING,
        Text(),
        "fixed:R, uniform:A-B, k:N, span:R, words:R, or a mixture W*..+W*...",
        otherwise=f"{PLAIN_MASKING}, of translations {PAIRS_MASKING}",
    )
    replacement: str = objective_row("1,0,0", Text(), "Shares of masked tokens shown as mask, random token, themselves.")
    loss: LossName = objective_row(
        "factorised", Choice(get_args(LossName)), "factorised, or block (chain rule inside the masked block)."
    )
    compatibility: float = objective_row(0.0, Real(0, 1e6), "Weight of the compatibility regulariser.")
    optimiser: OptimiserName = optimisation_row(
        "muon", Choice(get_args(OptimiserName)), "muon (orthogonalised steps for the layers' matrices), or adamw for all."
    )
    lr: float = optimisation_row(4e-3, Real(0, 10, above=True), "Peak learning rate.", **BY_SIZE)
    warmup: int = optimisation_row(500, Whole(0, MANY), "Steps of rising learning rate; at most a tenth of all steps.")
    steps: int = optimisation_row(0, Whole(0, MANY), "Optimisation steps.", otherwise="those of --epochs")
    batch_tokens: int = optimisation_row(65536, Whole(8, MANY), "Tokens of each step.", **BY_BOTH)
    weight_decay: float = optimisation_row(0.01, Real(0, 1), "Weight decay of matrices.")
    seed: int = option(0, Whole(0, LARGEST_SEED), "Seed of weights, order and masks.")
    dropout: float = optimisation_row(
        0.0,
        Real(0, 0.9),
        "Share of each layer's output that training drops.",
        left_out=None,
        otherwise="by the epochs; 0 with --steps or --init",
    )
    label_smoothing: float = optimisation_row(0.0, Real(0, 0.9), "Share of each answer spread over the vocabulary.")
    mask_source: float = objective_row(
        0.0, Real(0, 0.9), "Rate at which source tokens are masked, too.", otherwise="0.1; 0 with --steps or --init"
    )
    refinement: float = objective_row(0.0, Real(0, 1e3), "Weight of learning to correct one's own one-step output.")


@dataclass(frozen=True)
class TrainOptions(Printed, Training):
    """Options of `train`."""

    more = (
        "Settings that are left out are chosen for the data and the device, and printed first. Writes a folder that "
        "`unmask --model OUT` and Hugging Face's transformers load, with a model card. "
        "Ctrl-C leaves a checkpoint; --resume continues from there with the same numbers. "
        "On several GPUs: torchrun --nproc-per-node N -m unmask train with the same options."
    )
    examples = (
        "unmask train corpus.txt --out model",
        "unmask train --parallel sources.txt targets.txt --out translator",
    )
    reads = (*Training.reads, Reads("", {TEXTS: ("weight", "valid"), PAIRS: ("distil", *PAIRS_ONLY)}))
    folds = (
        Fold("--objective NAME", "masking and loss", (*MASKING, "label_smoothing")),
        Fold(PAIRS, "pairs", ("distil", *PAIRS_ONLY)),
        Fold("--size NAME", "shape and optimisation", SHAPE_AND_STEPS),
        Fold("--valid FILE", "texts and validation", TEXTS_AND_VALIDATION),
    )
    corpus: Any = option(
        None,
        Files(),
        "Text files, one text per line: .txt, .txt.xz, .txt.gz or .jsonl.",
        argument=True,
        metavar="CORPUS...",
        python="Or a list of texts.",
    )
    parallel: Any = option(None, TwoFiles(), "Instead of CORPUS: a file of sources and one of their translations, line by line.")
    distil: Any = option(None, File(), "Train on the translations of the causal model in this folder.")
    weight: Any = option(None, Weights(), "How often an epoch sees each CORPUS file; one per file, in order.")
    size: str = shape_row(
        "auto",
        Choice(("auto", "mini", "tiny", "small", "medium", "base")),
        "Default shape: mini, tiny, small, medium, base, or auto (by the data and the device).",
    )
    tokenizer: Any = shape_row(None, File(), "A tokenizer.json, or a model folder, to use instead of training one.")
    init: Any = shape_row(None, File(), "A model folder to start from; its shape and tokenizer are taken with its weights.")
    epochs: float | None = optimisation_row(
        None, Real(0, 1e6, above=True), "Passes over the corpus, where --steps is 0.", otherwise="by the data; 3 with --init"
    )
    valid: Any = validation_row(None, File(), "Held-out text.", otherwise="a share of the corpus")
    valid_share: float = validation_row(0.02, Real(0, 1), "Share of the corpus' lines held out, where there is no --valid.")
    max_minutes: float | None = run_row(None, Real(0, 1e7), "Pause after this time, with a checkpoint.")
    resume: bool = run_row(False, Flag(), "Go on with the run in --out.")
    device: str = run_row("auto", Text(), "cpu, cuda or auto.")
    out: Any = output_row(None, File(), "Folder for the model; must not exist, unless --resume.", required="both")

    @classmethod
    def chosen(cls, what: str, given: Mapping[str, Any]) -> tuple[str, ...]:
        """The objective, or what is trained on."""
        return super().chosen(what, given) if what else (PAIRS if given.get("parallel") is not None else TEXTS,)
