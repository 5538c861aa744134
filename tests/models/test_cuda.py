"""The same numbers on a GPU as on the CPU; skipped where there is none."""

import pytest
import torch
from torch.nn import functional

from support.constructions import of_names
from unmask.models.masked_lm import MaskedLM

pytestmark = pytest.mark.gpu
TEXT, VARIED, PREDICTED = [2, 5, 7, 4, 13, 4, 14, 3], 3, 5


def table(model):
    values = torch.arange(model.vocab_size)[:, None]
    parts = [logits.cpu() for _, logits in model.substitutions(TEXT, [VARIED], values, PREDICTED)]
    return torch.cat(parts).log_softmax(-1)


def test_float32_on_a_gpu_equals_the_cpu(checkpoint, any_architecture):
    folder = checkpoint(any_architecture)
    on_gpu = MaskedLM.load(folder)
    assert on_gpu.device.type == "cuda"
    assert on_gpu.dtype == torch.float32
    torch.testing.assert_close(
        table(on_gpu), table(MaskedLM.load(folder, device="cpu")), atol=1e-4, rtol=0
    )


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_on_a_gpu_gives_float32_logits(checkpoint, fast_architecture, dtype):
    model = MaskedLM.load(checkpoint(fast_architecture), dtype=dtype)
    _, logits = next(model.substitutions(TEXT, [VARIED], torch.arange(5, 20)[:, None], PREDICTED))
    assert logits.dtype == torch.float32
    assert not torch.equal(logits, logits.to(model.dtype).float())
    exact = table(MaskedLM.load(checkpoint(fast_architecture), device="cpu"))
    distance = (exact.exp() * (exact - table(model))).sum(-1)
    assert 0 < distance.max() < 0.05
    assert model.encoder is not None


def test_out_of_memory_on_a_gpu_halves_the_batch(checkpoint):
    model = MaskedLM.load(checkpoint("bert"))
    expected = table(model)
    values = torch.full((40_000, 1), 5, device="cuda")
    torch.cuda.empty_cache()
    whole = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + 60 * 2**20) / whole)
    try:
        sizes = []
        for rows, logits in model.substitutions(TEXT, [VARIED], values, PREDICTED):
            sizes.append(rows.stop - rows.start)
            torch.testing.assert_close(
                logits[0].log_softmax(-1).cpu(), expected[5], atol=1e-4, rtol=0
            )
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert sum(sizes) == len(values), "60 MiB do not hold a full batch"
    assert max(sizes) < model.cost.rows(len(TEXT)), "60 MiB do not hold a full batch"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("width", [320, 768])
def test_gelu_within_the_product_is_the_product_and_then_gelu(width, dtype):
    from unmask.models.encoder.linear_maps import MANY, activated

    torch.manual_seed(0)
    module = torch.nn.Linear(width, 4 * width, device="cuda", dtype=dtype).requires_grad_(False)
    x = torch.randn(MANY + 1, width, device="cuda", dtype=dtype)
    exact = functional.gelu(
        functional.linear(x.float(), module.weight.float(), module.bias.float())
    )
    by_two = functional.gelu(module(x)).float()
    by_one = activated(module, functional.gelu, x).float()
    assert (by_one - exact).abs().max() <= (by_two - exact).abs().max()
    assert not torch.equal(by_one, by_two), "control: one rounding less shows"


@pytest.mark.parametrize("stored", [torch.float32, torch.float16])
@pytest.mark.parametrize(("inputs", "outputs"), [(320, 1280), (3072, 768)])
def test_products_in_float32_on_tensor_cores_are_as_near_to_the_exact_ones_as_plain_ones(
    inputs, outputs, stored
):
    from unmask.models.encoder.linear_maps import MANY, linear_plus

    torch.manual_seed(0)
    module = (
        torch.nn.Linear(inputs, outputs, device="cuda", dtype=stored).float().requires_grad_(False)
    )
    x = torch.randn(MANY + 1, inputs, device="cuda")
    exact = functional.linear(x.double(), module.weight.double(), module.bias.double())
    plain, ours = ((product - exact).abs() for product in (module(x), linear_plus(module, x)))
    assert ours.mean() <= 2 * plain.mean()
    assert ours.max() <= plain.max()
    assert not torch.equal(ours, plain), "control: they are not the same operation"
    in_half = functional.linear(x.half(), module.weight.half(), module.bias.half())
    assert (in_half - exact).abs().mean() > 100 * plain.mean(), (
        "control: factors of 11 bits are seen"
    )


def test_a_batch_in_float32_on_a_gpu_is_as_near_to_float64_as_the_forward_pass():
    import unmask

    model, exact = MaskedLM.load(), MaskedLM.load(dtype="float64")
    cloze = model.cloze("A young woman is playing the [MASK] in the [MASK].")
    tables = {}
    for name, lm, fast in (
        ("float64", exact, True),
        ("ours", model, True),
        ("forward", model, False),
    ):
        if not fast:
            lm.encoder = None
        tables[name] = unmask.unary_tables(lm, cloze, dtype=torch.float64).log_q
    ours, forward = (
        [
            (table - reference).abs().max()
            for table, reference in zip(tables[name], tables["float64"], strict=True)
        ]
        for name in ("ours", "forward")
    )
    assert max(ours) < 2 * max(forward)
    assert max(forward) < 1e-3


@pytest.mark.parametrize("activation", [functional.gelu, torch.nn.SiLU()])
def test_gates_within_the_product_are_the_product_and_then_the_gates(activation):
    from unmask.models.encoder.linear_maps import MANY, activated

    torch.manual_seed(0)
    module = torch.nn.Linear(768, 2304, device="cuda", dtype=torch.bfloat16).requires_grad_(False)
    x = torch.randn(MANY + 1, 768, device="cuda", dtype=torch.bfloat16)
    first, second = functional.linear(x.float(), module.weight.float(), module.bias.float()).chunk(
        2, -1
    )
    exact = activation(first) * second
    by_two = activated(module, activation, x, gates=True, fused=False).float()
    by_one = activated(module, activation, x, gates=True).float()
    assert (by_one - exact).abs().max() <= (by_two - exact).abs().max()
    assert not torch.equal(by_one, by_two), "control: one rounding less shows"


@pytest.mark.parametrize("length", [96, 300])
def test_attention_within_a_window_is_masked_attention(length):
    from unmask.models.encoder.triton_programs import long_attention

    torch.manual_seed(0)
    queries, keys, values = torch.randn(3, 4, length, 256, device="cuda", dtype=torch.float16)
    places = torch.arange(length, device="cuda")
    split = [x.float().unflatten(-1, (4, 64)).transpose(1, 2) for x in (queries, keys, values)]
    near = (places[:, None] - places).abs() <= 40
    expected = functional.scaled_dot_product_attention(*split, near).transpose(1, 2).flatten(2)
    torch.testing.assert_close(
        long_attention(queries, keys, values, 4, 40).float(), expected, atol=5e-3, rtol=0
    )
    assert (long_attention(queries, keys, values, 4, 41).float() - expected).abs().max() > 0.05


def test_a_pair_after_a_precompilation_compiles_nothing(checkpoint, monkeypatch):
    from support.launch_kinds import compilations
    from unmask.common.cloze import Cloze
    from unmask.studies.evaluation.measure import Measurer, measure_pairs

    model = MaskedLM.load(checkpoint("bert"), dtype="float16")
    names = ("product", "mrf", "arnold_gokhale", "chain")
    compiled = compilations(monkeypatch)
    measurer = Measurer(model, of_names(names))
    measurer.precompile()
    measurer.precompilation.join()
    assert {"_add_norm", "_sums", "_write", "_row_sums", "_column_sums"} <= set(compiled)
    before = len(compiled)
    measure_pairs(model, [Cloze(tuple(TEXT), (VARIED, PREDICTED), (6, 7))], of_names(names))
    assert compiled[before:] == []
    measure_pairs(
        model,
        [Cloze(tuple(TEXT), (VARIED, PREDICTED), (6, 7))],
        of_names(names),
        support=torch.tensor([6, 7, 9]),
    )
    assert len(compiled) > before, "control: other lines are programs of their own"
