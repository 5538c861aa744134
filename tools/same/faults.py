"""Faults that are planted into one side, to see that the comparison finds them.

A fault takes the place of a function of a library, or of a public name, when the worker starts. So
it stays in force when modules of unmask move and change. `calls` says which calls are made; at
least one of them must differ.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

Plant = Callable[[Any], None]


@dataclass(frozen=True)
class Fault:
    """A fault.

    about   what is wrong, in words
    calls   pattern of the calls that are made
    plant   takes the adapter, and makes the fault
    value   pattern of the values of which one must differ: a seed that is printed proves nothing
    """

    about: str
    calls: str
    plant: Plant
    value: str = "*"


FAULTS: dict[str, Fault] = {}


def fault(about: str, calls: str, value: str = "*") -> Callable[[Plant], Plant]:
    """Register a function that plants a fault."""

    def register(plant: Plant) -> Plant:
        FAULTS[plant.__name__.replace("_", "-")] = Fault(about, calls, plant, value)
        return plant

    return register


def replace(
    owner: Any, name: str, changed: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> None:
    """Put a changed function in the place of another."""
    original = getattr(owner, name)
    setattr(owner, name, wraps(original)(changed(original)))


def after(change: Callable[[Any], Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A function whose result is changed."""

    def changed(original: Callable[..., Any]) -> Callable[..., Any]:
        def function(*arguments: Any, **options: Any) -> Any:
            return change(original(*arguments, **options))

        return function

    return changed


def last_bit_flipped(tensor: Any) -> Any:
    """The tensor, with the last bit of its first finite number flipped."""
    import torch

    if not tensor.is_floating_point() or tensor.numel() == 0 or tensor.element_size() not in (4, 8):
        return tensor
    changed = tensor.detach().clone().contiguous()
    bits = changed.view(torch.int32 if tensor.element_size() == 4 else torch.int64).flatten()
    first = int(changed.flatten().isfinite().int().argmax())
    bits[first] ^= 1
    return bits.view(changed.dtype).view(changed.shape)


# ---- numbers ----


@fault("one bit of one number of every table", "tables/*")
def bit_in_a_table(adapter: Any) -> None:
    """The last bit of the first log-probability of every table is flipped."""
    original = adapter.public("unary_tables")

    def flipped(*arguments: Any, **options: Any) -> Any:
        from dataclasses import replace as changed

        tables = original(*arguments, **options)
        return changed(tables, log_q=(last_bit_flipped(tables.log_q[0]), *tables.log_q[1:]))

    set_public("unary_tables", flipped)


@fault("two columns of a table are swapped", "tables/*")
def swapped_columns(adapter: Any) -> None:
    """The first two columns of every second table change places."""
    original = adapter.public("unary_tables")

    def swapped(*arguments: Any, **options: Any) -> Any:
        from dataclasses import replace as changed

        import torch

        tables = original(*arguments, **options)
        order = torch.arange(tables.log_q[-1].shape[-1])
        order[0], order[1] = 1, 0
        return changed(tables, log_q=(*tables.log_q[:-1], tables.log_q[-1][..., order]))

    set_public("unary_tables", swapped)


@fault("a table in float32 that was in float64", "tables/3x3*")
def other_dtype(adapter: Any) -> None:
    """All tables lose digits, and their dtype says so."""
    original = adapter.public("unary_tables")

    def rounded(*arguments: Any, **options: Any) -> Any:
        from dataclasses import replace as changed

        tables = original(*arguments, **options)
        return changed(tables, log_q=tuple(table.float() for table in tables.log_q))

    set_public("unary_tables", rounded)


@fault("log-softmax is off by a bit", "fill/words/0/*")
def bit_in_a_pass(_: Any) -> None:
    """torch.log_softmax, of which every table is made."""
    import torch

    replace(torch, "log_softmax", after(last_bit_flipped))
    replace(torch.Tensor, "log_softmax", after(last_bit_flipped))


@fault("a fixed point that is stopped one step early", "joint/*/steps/*")
def one_step_less(adapter: Any) -> None:
    """The construction gets another number of steps."""
    original = adapter.public("derive")

    def early(tables: Any, construction: str, **options: Any) -> Any:
        return original(tables, construction, **{**options, "steps": options["steps"] + 1})

    set_public("derive", early)


@fault("a NaN in the place of a number", "logits/words/*")
def not_a_number(adapter: Any) -> None:
    """The first logit of every row is NaN."""
    import torch

    first = torch.tensor([0])
    change_logits(adapter, lambda logits: logits.index_fill(-1, first, float("nan")))


def change_logits(adapter: Any, change: Callable[[Any], Any]) -> None:
    """Change the logits of the calls `logits`."""
    original = adapter.do_logits

    def changed(**arguments: Any) -> Any:
        result = original(**arguments)
        return {**result, "logits": change(result["logits"])}

    adapter.do_logits = changed


# ---- randomness ----


@fault("another seed", "sample/template/mh/*", "*/samples/ids*")
def other_seed(adapter: Any) -> None:
    """`sample` adds one to its seed."""
    original = adapter.public("sample")

    def other(*arguments: Any, seed: int = 0, **options: Any) -> Any:
        return original(*arguments, seed=seed + 1, **options)

    set_public("sample", other)


@fault("a generator of torch with another seed", "joint/3x3/scale-0.5/0/*", "*/sample")
def other_generator(_: Any) -> None:
    """Every generator is seeded with one more."""
    import torch

    original = torch.Generator.manual_seed

    class Generator(torch.Generator):
        def manual_seed(self, seed: int) -> torch.Generator:
            return original(self, seed + 1)

    torch.Generator = Generator  # type: ignore[misc]


@fault("another learning rate", "train/k:1/*", "result/weights/*")
def other_learning_rate(adapter: Any) -> None:
    """`train` takes a learning rate that is larger by a ten-thousandth."""
    from dataclasses import replace as changed

    original = adapter.public("train")

    def faster(*arguments: Any, optimisation: Any, **options: Any) -> Any:
        larger = changed(optimisation, lr=optimisation.lr * (1 + 1e-4))
        return original(*arguments, optimisation=larger, **options)

    set_public("train", faster)


# ---- rows, texts, kinds ----


@fault("a lost row", "score/words/rows/*")
def lost_row(adapter: Any) -> None:
    """The rows of scores lose their last."""
    change_rows(adapter, lambda rows: rows[:-1])


@fault("two rows in another order", "score/file/*")
def other_order(adapter: Any) -> None:
    """The rows of scores are turned round."""
    change_rows(adapter, lambda rows: rows[::-1])


@fault("a lost column", "score/file/*")
def lost_column(adapter: Any) -> None:
    """The rows of scores lose their first column."""
    change_rows(adapter, lambda rows: [dict([*row.items()][1:]) for row in rows])


@fault("a token that is spelled otherwise", "fill/pieces/*")
def other_spelling(adapter: Any) -> None:
    """One letter of every completion is another one."""
    from dataclasses import replace as changed

    def respelled(rows: list[Any]) -> list[Any]:
        return [changed(row, text=row.text.replace("a", "b", 1)) for row in rows]

    change_attribute(adapter, "Filling", "completions", respelled)


@fault("bits in the place of nats", "score/unit/nats/*", "*/rows/*")
def other_unit(adapter: Any) -> None:
    """`score` counts in bits whatever it is told."""
    original = adapter.public("score")

    def in_bits(*arguments: Any, unit: str = "nats", **options: Any) -> Any:
        return original(*arguments, unit="bits", **options)

    set_public("score", in_bits)


@fault("a value that an adapter drops", "compare/words/0/*")
def dropped_value(adapter: Any) -> None:
    """The joints of a comparison are no longer recorded."""
    adapter.ATTRIBUTES = {**adapter.ATTRIBUTES, "Comparison": ("to_dict", "to_frame")}


@fault("a value that an adapter rounds", "compare/words/0/*")
def rounded_value(adapter: Any) -> None:
    """Numbers of comparisons are rounded to six digits."""
    original = adapter.parts

    def rounded(result: Any) -> Any:
        parts = original(result)
        if parts is not None and "entropy" in parts:
            return {**parts, "entropy": float(f"{parts['entropy']:.6g}")}
        return parts

    adapter.parts = rounded


@fault("a warning that is gone", "train/slow/*|evaluate/words/random/1", "warnings")
def dropped_warning(_: Any) -> None:
    """Nothing warns any more."""
    warnings.warn = lambda *arguments, **options: None  # type: ignore[assignment]


@fault("an error of another kind", "refused/fill/*")
def other_error(adapter: Any) -> None:
    """`fill` raises ValueError where it raised an error of unmask."""
    original = adapter.public("fill")

    def other(*arguments: Any, **options: Any) -> Any:
        try:
            return original(*arguments, **options)
        except Exception as error:
            raise ValueError(str(error)) from None

    set_public("fill", other)


@fault("an error that is swallowed", "refused/score/*")
def swallowed_error(adapter: Any) -> None:
    """`score` returns nothing where it raised."""
    original = adapter.public("score")

    def silent(*arguments: Any, **options: Any) -> Any:
        try:
            return original(*arguments, **options)
        except Exception:
            return None

    set_public("score", silent)


@fault("another exit code", "command/fil*")
def other_exit_code(adapter: Any) -> None:
    """Commands that fail end with 1."""
    change_command(adapter, lambda result: {**result, "exit_code": min(result["exit_code"], 1)})


@fault("a printed digit", "command/score*")
def other_digit(adapter: Any) -> None:
    """The first 1 that a command prints is a 2."""

    def changed(result: dict[str, Any]) -> dict[str, Any]:
        import json

        return {**result, "output": json.loads(json.dumps(result["output"]).replace("1", "2", 1))}

    change_command(adapter, changed)


@fault("another answer of the page", "page/score/*")
def other_answer(adapter: Any) -> None:
    """What the server answers loses its last part."""
    original = adapter.do_page

    def shorter(**arguments: Any) -> Any:
        result = original(**arguments)
        return {**result, "answer": dict([*result["answer"].items()][:-1])}

    adapter.do_page = shorter


@fault("rows of a run's folder that are lost", "sample/again/*")
def lost_part(adapter: Any) -> None:
    """The last row of every part is gone."""
    original = adapter.stored_rows
    adapter.stored_rows = lambda folder: {
        name: rows.iloc[:-1] for name, rows in original(folder).items()
    }


@fault("weights of another model", "bundled/logits/*")
def other_weights(adapter: Any) -> None:
    """The first weights of every loaded model are larger by a millionth."""
    import torch

    original = adapter.mark_model

    def loaded(name: str, **options: Any) -> Any:
        model = original(name, **options)
        network = next(
            value for value in vars(model).values() if isinstance(value, torch.nn.Module)
        )
        weight = next(network.parameters())
        with torch.no_grad():
            weight.mul_(1 + 2**-20)
        return model

    adapter.mark_model = loaded


def set_public(name: str, value: Any) -> None:
    """Put another function in the place of a public one, for those who call it from outside."""
    import unmask

    setattr(unmask, name, value)


def change_rows(adapter: Any, change: Callable[[list[Any]], list[Any]]) -> None:
    """Change the rows of results of `score`, in their dictionary and nowhere else."""

    def changed(stored: dict[str, Any]) -> dict[str, Any]:
        return {**stored, "rows": change([*stored["rows"]])}

    change_attribute(adapter, "Scores", "to_dict", changed)


def change_attribute(adapter: Any, kind: str, name: str, change: Callable[[Any], Any]) -> None:
    """Change one part of the results of a class."""
    original = adapter.parts

    def changed(result: Any) -> Any:
        parts = original(result)
        if type(result).__name__ == kind:
            return {**parts, name: change(parts[name])}
        return parts

    adapter.parts = changed


def change_command(adapter: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Change what commands are seen to do."""
    original = adapter.do_command
    adapter.do_command = lambda **arguments: change(original(**arguments))
