"""`compare`: every construction on the blanks of one text, side by side.

For each joint mu: its entropy H(mu), its total correlation sum_t H(mu_t) - H(mu) (the mutual
information of a pair), and how far its conditionals lie from the model's (A-KL); where the
tokens that stood in the blanks are known, the other metrics too.

Its joints are those of `fill` over a table, with one difference: tokens that stood in the blanks,
or targets, are among the candidates, since they are what is measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import exp
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, cast

from unmask.common.border.calls import checked
from unmask.common.border.marks import Written
from unmask.common.errors import InputError
from unmask.common.formats import in_form, nats, short_percent
from unmask.common.result_tables import Column, Table
from unmask.common.results import Result
from unmask.joints.constructions.construction import Construction, Rules
from unmask.models.load import Model
from unmask.runs.progress import Progress
from unmask.verbs import Alphabet, Candidates, Force, PathLike, Positions, Texts, Top, one_or_many

if TYPE_CHECKING:
    import pandas
    from torch import Tensor

    from unmask.common.cloze import Cloze
    from unmask.common.figures import Figure
    from unmask.joints.joint import Joint
    from unmask.models.masked_lm import MaskedLM
    from unmask.tables.unary import Tables
    from unmask.verbs.blanked_texts import BlankedText

LEGEND_OF_GOLD = "* the tokens given"
TARGETS = "The words that belong in the blanks, one for each: they are measured."
TOKENS_SHOWN = 12  # Along each edge of a heat map
LABELLED_CELLS = 8  # Of a heat map


@dataclass(frozen=True)
class ComparedCompletion(Result):
    """One filling of the blanks and its log-probability under each construction, given that it
    lies in the candidates.

    orders_log_prob is that of the chain rule averaged over all orders
    (`unmask.tables.lattice`), over the whole vocabulary or the alphabet.
    """

    KEYS: ClassVar[tuple[str, ...]] = (
        "tokens",
        "text",
        "gold=is_gold",
        "log_probs",
        "orders_log_prob",
    )

    tokens: tuple[str, ...]
    text: str
    log_probs: dict[str, float]
    orders_log_prob: float
    is_gold: bool


@dataclass(frozen=True)
class Description(Result):
    """One construction on this text, in nats; the last four are None where the gold tokens are
    unknown.

    gold_log_prob and the perplexities are those of the tokens that stood in the blanks.
    """

    OPTIONAL: ClassVar[tuple[str, ...]] = ("gold_log_prob", "g_kl", "u_ppl", "p_ppl")

    entropy: float
    total_correlation: float
    a_kl: float
    gold_log_prob: float | None = None
    g_kl: float | None = None
    u_ppl: float | None = None
    p_ppl: float | None = None


@dataclass(frozen=True, repr=False)
class Comparison(Result):
    """The joints of all constructions over the same tables, and what can be said of each.

    text, model      the text with its blanks; the model
    joints           one joint per construction, by name
    ranked_by, top   the construction whose most probable fillings are shown, and how many
    cloze            the text as token ids, and where its blanks are
    support          the tokens allowed in a blank, for the chain rule over all orders

    >>> text = "The [MASK] [MASK] at the casino."
    >>> comparison = unmask.compare(text, constructions="product,chain", candidates=32)
    >>> product, chain = comparison.joints['product'], comparison.joints['chain']
    >>> product.mutual_information() < chain.mutual_information()
    True
    """

    KEYS: ClassVar[tuple[str, ...]] = (
        "text",
        "candidates_mass",
        "warning",
        "incompatibility",
        "joints=descriptions",
        "ranked_by",
        "completions",
    )
    OPTIONAL: ClassVar[tuple[str, ...]] = ("warning",)

    text: str
    joints: dict[str, Joint]
    ranked_by: str
    model: MaskedLM
    cloze: Cloze
    support: Tensor
    top: int

    @property
    def candidates_mass(self) -> float:
        """The share of the product joint that lies in the candidate sets; the joints are given
        that the blanks do.
        """
        return exp(self._shared_tables.log_mass)

    @property
    def _shared_tables(self) -> Tables:
        """The tables of the blanks, which all joints share."""
        joints = iter(self.joints.values())
        return next(joints).tables

    @cached_property
    def incompatibility(self) -> float:
        """How far the model's conditionals are from any joint: root mean square, in nats
        (`unmask.joints.incompatibility`).

        Of two blanks it is zero if and only if one joint has both conditionals; of more it is
        that of all pairs of tables.
        """
        from unmask.joints.incompatibility import incompatibility

        return incompatibility(self._shared_tables)

    @cached_property
    def descriptions(self) -> dict[str, Description]:
        """Entropy, total correlation and faithfulness of each construction."""
        if self.cloze.gold is None:
            return self._described()
        return self._described_with_gold(self.cloze.gold)

    def _described(self) -> dict[str, Description]:
        """The descriptions where the gold tokens are unknown."""
        from unmask.joints.reading import read_joints

        readings = read_joints(list(self.joints.values()))
        described: dict[str, Description] = {}
        for (name, joint), reading in zip(self.joints.items(), readings, strict=True):
            described[name] = Description(
                entropy=joint.entropy(),
                total_correlation=joint.total_correlation(),
                a_kl=reading.average_kl,
            )
        return described

    def _described_with_gold(self, gold: tuple[int, ...]) -> dict[str, Description]:
        """The descriptions with all metrics, those of the gold tokens included."""
        from unmask.joints.metrics import metrics_of_block

        metrics = metrics_of_block(list(self.joints.values()), gold).joints
        described: dict[str, Description] = {}
        for (name, joint), measured in zip(self.joints.items(), metrics, strict=True):
            described[name] = Description(
                entropy=joint.entropy(),
                total_correlation=joint.total_correlation(),
                a_kl=measured.a_kl,
                gold_log_prob=-measured.joint_nll,
                g_kl=measured.g_kl,
                u_ppl=measured.u_ppl,
                p_ppl=measured.p_ppl,
            )
        return described

    @cached_property
    def completions(self) -> list[ComparedCompletion]:
        """The `top` most probable fillings by the construction that ranks them, and the gold
        one if known.
        """
        import torch

        from unmask.common.cloze import ids_of_filling
        from unmask.joints.joint import most_probable
        from unmask.models.text.filled_text import filled_text
        from unmask.tables.conditionals import Conditionals
        from unmask.tables.lattice import lattice
        from unmask.verbs.blanked_texts import with_gold

        best, _ = most_probable(self.joints[self.ranked_by], self.top)
        rows = with_gold(best, self.cloze).tolist()  # token ids, one per blank
        blanks = torch.tensor([self.cloze.block]).expand(len(rows), -1)  # the same in every text
        filled_ids = torch.tensor([ids_of_filling(self.cloze, row) for row in rows])
        conditionals = Conditionals(self.model, self.support)
        orders_log_probs = lattice(conditionals, filled_ids, blanks).log_mean.tolist()
        completions = []
        for row, orders_log_prob in zip(rows, orders_log_probs, strict=True):
            filled = filled_text(self.model.words, self.cloze, row)
            log_probs = {name: float(joint.log_prob(row)) for name, joint in self.joints.items()}
            completion = ComparedCompletion(
                tokens=filled.tokens,
                text=filled.text,
                log_probs=log_probs,
                orders_log_prob=orders_log_prob,
                is_gold=tuple(row) == self.cloze.gold,
            )
            completions.append(completion)
        return completions

    @property
    def warning(self) -> str | None:
        """A sentence if a construction did not converge."""
        from unmask.joints.joint import not_converged

        return not_converged(self.joints.values()) or None

    @property
    def heading(self) -> str:
        """The text with its blanks."""
        return self.text

    def about(self) -> list[str]:
        """How many blanks there are, and what their candidates hold."""
        from unmask.verbs.blanked_texts import mass_in_words, sizes_in_words

        tables = self._shared_tables
        sentence = f"{tables.sites} blanks; {sizes_in_words(tables.shape)} {mass_in_words(tables)}"
        if self.cloze.gold is not None:
            sentence += "; the tokens given are among them"
        return [sentence]

    def tables(self) -> list[Table]:
        """The completions under each construction, and the numbers of each construction."""
        return [self._table_of_completions(), self._table_of_constructions()]

    def _table_of_completions(self) -> Table:
        from unmask.joints.registry import heading_of
        from unmask.verbs.blanked_texts import GOLD_MARK

        head = "completion"
        columns = [Column(head, text=True, least=len(head))]
        heads = [*map(heading_of, self.joints), "all\nord."]
        columns += [Column(one, short_percent, stored=_in_percent) for one in heads]
        rows: list[list[object]] = []
        for one in self.completions:
            mark = GOLD_MARK if one.is_gold else ""
            completion = " ".join(one.tokens) + mark
            rows.append([completion, *one.log_probs.values(), one.orders_log_prob])
        is_alphabet = len(self.support) < len(self.model.regular_ids)
        support = "alphabet" if is_alphabet else "whole vocabulary"
        notes = [f"all orders: the chain rule averaged over all orders, over the {support}"]
        if self.cloze.gold is not None:
            notes.append(LEGEND_OF_GOLD)
        title = (
            f"Probability of a completion (%) under each construction, the best by {self.ranked_by}"
        )
        return Table(columns, rows, title=title, notes=notes)

    def _table_of_constructions(self) -> Table:
        dependence = "total\ncorrelation"
        if self._shared_tables.sites == 2:
            dependence = "mutual\ninformation"
        has_gold = self.cloze.gold is not None
        columns = [
            Column("construction", text=True),
            Column("entropy", nats),
            Column(dependence, nats),
            Column("A-KL", nats),
        ]
        if has_gold:
            columns += [
                Column("G-KL", nats),
                Column("U-PPL", in_form(".4g")),
                Column("P-PPL", in_form(".4g")),
            ]
        rows: list[list[object]] = []
        for name, row in self.descriptions.items():
            values: list[object] = [name, row.entropy, row.total_correlation, row.a_kl]
            if has_gold:
                values += [row.g_kl, row.u_ppl, row.p_ppl]
            rows.append(values)
        title = "Entropy, dependence, and divergence from the model's own conditionals (nats)"
        return Table(columns, rows, title=title)

    def verdict(self) -> list[str]:
        """How far the conditionals are from one joint, and which joints are approximate."""
        meaning = "root mean square over pairs of tables"
        if self._shared_tables.sites == 2:
            meaning = "root mean square; 0: one joint has both conditionals"
        sentences = [f"incompatibility {nats(self.incompatibility)} nats ({meaning})"]
        if self.warning is not None:
            sentences.append(self.warning)
        return sentences

    def to_frame(self) -> pandas.DataFrame:
        """One row per completion, one column of probabilities per construction, then that of
        the chain rule over all orders.
        """
        from unmask.common.lazy import pandas

        rows = []
        for one in self.completions:
            row: dict[str, object] = {"completion": " ".join(one.tokens)}
            for name, log_prob in one.log_probs.items():
                row[name] = exp(log_prob)
            row["all_orders"] = exp(one.orders_log_prob)
            rows.append(row)
        return pandas.DataFrame(rows).set_index("completion")

    def figure(self) -> Figure:
        """Heat maps of the joint of two blanks, independent and by the default construction (or
        the last one compared).
        """
        from unmask.joints.registry import DEFAULT, INDEPENDENT

        shown = [self.joints.get(INDEPENDENT), self.joints.get(DEFAULT)]
        joints = [joint for joint in shown if joint is not None]
        if not joints:
            joints = list(self.joints.values())[-1:]
        return _heat_maps(joints, title=self.text)

    def __repr__(self) -> str:
        return f"Comparison({self.text!r}, {', '.join(self.joints)}; ranked by {self.ranked_by})"


def _heat_maps(joints: Sequence[Joint], title: str) -> Figure:
    """Heat maps of joints of two blanks over the same tables, one panel each, on one scale.

    They show the TOKENS_SHOWN tokens of each blank with the highest marginal probability on
    average over the joints; the LABELLED_CELLS most probable cells have their number in them. The
    text is drawn as it is, without LaTeX: a dollar sign in it is not mathematics.
    """
    from unmask.common.excerpts import around_blanks
    from unmask.common.figures import Figure, PowerNorm
    from unmask.joints.joint import mutual_information

    if any(joint.sites != 2 for joint in joints):
        raise InputError(
            f"a heat map needs two blanks, these joints have {joints[0].sites}: leave the"
            " figure out"
        )
    rows = _likely_on_average(joints, 0)
    columns = _likely_on_average(joints, 1)
    percentages = [100 * _cells(joint, rows, columns) for joint in joints]
    brightest = max(float(cells.max()) for cells in percentages)
    width = 1.2 + 4.6 * len(joints)  # inches
    figure = Figure(figsize=(width, 5.4), layout="constrained")
    panels = figure.subplots(1, len(joints), sharey=True, squeeze=False)[0]
    for joint, cells, panel in zip(joints, percentages, panels, strict=True):
        norm = PowerNorm(0.5, 0, brightest)  # colours go with the square root of the probability
        image = panel.imshow(cells.numpy(), cmap="Blues", norm=norm, aspect="auto")
        information = abs(mutual_information(joint))
        panel.set_title(f"{joint.name}: mutual information {information:.2f} nats", fontsize=11)
        names = _names(joint, 1, columns)
        panel.set_xticks(range(len(columns)), names, rotation=60, ha="right", parse_math=False)
        panel.set_xlabel("second blank")
        _label_cells(panel, cells, brightest)
    panels[0].set_yticks(range(len(rows)), _names(joints[0], 0, rows), parse_math=False)
    panels[0].set_ylabel("first blank")
    # The last image stands for all: they have one scale.
    figure.colorbar(image, ax=panels, label="probability (%)", shrink=0.8)
    characters = 40 + 40 * len(joints)  # of the text, around its blanks
    figure.suptitle(around_blanks(title, characters), parse_math=False)
    return figure


def _cells(joint: Joint, rows: Tensor, columns: Tensor) -> Tensor:
    """mu of the candidates at these places of both blanks, on the CPU: (rows, columns)."""
    of_row = rows.repeat_interleave(len(columns))
    of_column = columns.repeat(len(rows))
    cells = joint.log_tile((of_row, of_column)).double().exp()  # one list, row after row
    return cells.reshape(len(rows), len(columns)).cpu()


def _likely_on_average(joints: Sequence[Joint], blank: int) -> Tensor:
    """The TOKENS_SHOWN candidates of a blank with the highest marginals, on average over the
    joints, by their places among its candidates.
    """
    from unmask.common.lazy import torch

    marginals = torch.stack([joint.marginals()[blank] for joint in joints]).mean(0)
    return marginals.topk(min(TOKENS_SHOWN, len(marginals))).indices


def _names(joint: Joint, blank: int, places: Tensor) -> list[str]:
    """The candidates of a blank at these places, as people read them."""
    candidates = joint.tables.candidates[blank]
    return [joint.tables.spelled(blank, int(candidates[place])) for place in places]


def _label_cells(panel: Any, cells: Tensor, brightest: float) -> None:
    """Write the most probable cells' numbers into them, white where the colour is dark."""
    columns = cells.shape[1]
    labelled = min(LABELLED_CELLS, cells.numel())
    places = cells.flatten().topk(labelled).indices  # counted row after row
    for place in places.tolist():
        row, column = divmod(place, columns)
        value = float(cells[row, column])
        colour = "white" if value > brightest / 3 else "black"
        panel.text(column, row, f"{value:.1f}", ha="center", va="center", fontsize=7, color=colour)


@one_or_many
@checked
def compare(
    text: Texts,
    model: Model = None,
    *,
    constructions: Rules = "all",
    rank_by: Annotated[str | None, Written(metavar="NAME")] = None,
    candidates: Candidates = None,
    alphabet: Alphabet = None,
    positions: Positions = None,
    targets: Annotated[Sequence[str] | None, Written(help=TARGETS)] = None,
    top: Top = 10,
    figure: PathLike | None = None,
    force: Force = False,
    progress: Progress | None = None,
) -> Iterator[Comparison]:
    """Put the joints of all constructions side by side: completions, entropy, dependence,
    faithfulness to the model.

    The text has two blanks or more. The tokens that stood in the blanks are known where
    positions of a whole text are given, or targets, one per blank; then the metrics are those
    of these tokens, which are among the candidates.

    Parameters:
        text: Text with [MASK] at each blank.
        constructions: all, or some constructions of `fill`, such as product,chain.
        rank_by: The construction by which completions are ranked [default: restarted].
        figure: Draw the joint of two blanks, independent and by the default, to this file (png,
            pdf, svg).

    Returns:
        A `Comparison`; of a list of texts, or of a file, a list of them.

    >>> text = "The [MASK] [MASK] at the casino."
    >>> comparison = unmask.compare(text, constructions="product,mrf,chain", candidates=32)
    >>> list(comparison.joints), comparison.ranked_by
    (['product', 'mrf', 'chain'], 'chain')
    """
    from unmask.common.figure_files import figure_path, save_figure
    from unmask.common.texts import for_each
    from unmask.joints.deriving import derive_blocks
    from unmask.joints.joint import refuse_impossible_contexts
    from unmask.models.first_look import look_at_first
    from unmask.models.load import as_model
    from unmask.models.text.alphabet import letter_ids
    from unmask.models.text.blanks import cloze_of
    from unmask.verbs.blanked_texts import BlankedText, refuse_all_of_alphabet, with_tables

    rules = cast("tuple[Construction, ...]", constructions)  # which `checked` has made of them
    names = [rule.name for rule in rules]
    ranked_by = _ranked_by(rank_by, names)
    path = figure_path(figure, texts=len(text), reads=(model, alphabet))
    lm = as_model(model)
    letters = letter_ids(lm, alphabet)

    def read(one: str) -> BlankedText:
        cloze = cloze_of(
            lm.words, one, positions=positions, targets=targets, max_length=lm.max_length
        )
        refuse_all_of_alphabet(candidates, letters, len(cloze.block))
        blanked = BlankedText.of(lm, one, cloze, candidates, letters=letters, force=force)
        _refuse_number_of_blanks(one, len(cloze.block), has_figure=path is not None)
        return blanked

    texts = for_each(text, read)
    look_at_first(lm, (one.cloze.ids for one in texts))
    for one, tables in with_tables(lm, texts, progress):
        refuse_impossible_contexts(tables, "metrics")
        (joints,) = derive_blocks([tables], rules)
        comparison = Comparison(
            text=one.text,
            joints=dict(zip(names, joints, strict=True)),
            ranked_by=ranked_by,
            model=lm,
            cloze=one.cloze,
            support=one.plan.allowed,
            top=top,
        )
        yield comparison
        save_figure(comparison.figure, path)


def _in_percent(log_prob: float) -> float:
    return 100 * exp(log_prob)


def _ranked_by(rank_by: str | None, names: Sequence[str]) -> str:
    """The name of the construction by which completions are ranked; raises if it is not among
    those compared.
    """
    from unmask.joints.registry import DEFAULT, named

    if rank_by is None and DEFAULT in names:
        name = DEFAULT
    elif rank_by is None:
        name = names[-1]
    elif rank_by in names:
        name = rank_by
    else:  # perhaps another spelling of one, such as family:0.50
        name = named(rank_by, "rank_by").name
    if name not in names:
        raise InputError(
            f"{name} is not among those compared ({', '.join(names)})",
            argument="rank_by",
            use="add it, or rank by another",
        )
    return name


def _refuse_number_of_blanks(text: str, blanks: int, has_figure: bool) -> None:
    """Raise for a single blank, and for a figure of more than two."""
    from unmask.common.excerpts import around_blanks

    if blanks < 2:
        raise InputError(
            f"the text {around_blanks(text, 60)!r} has one blank, where all constructions coincide:"
            " give more, or use fill"
        )
    if has_figure and blanks != 2:
        raise InputError(
            f"is of two blanks, and the text has {blanks}", argument="figure", use="leave it out"
        )
