import numpy as np
import torch

from unmask.runs.fingerprint import fingerprint


def test_every_single_number_counts():
    tensors = {
        "a": torch.zeros(7, 301),
        "b": torch.arange(5),
        "c": torch.tensor(2.0, dtype=torch.bfloat16),
    }
    known = {fingerprint(tensors)}
    for place in range(0, 7 * 301, 97):
        changed = {**tensors, "a": tensors["a"].clone()}
        changed["a"].view(-1)[place] = 1e-30
        known.add(fingerprint(changed))
    assert len(known) == 1 + len(range(0, 7 * 301, 97))


def test_names_shapes_types_and_the_tokenizer_count():
    zeros = torch.zeros(6)
    variants = [
        fingerprint({"a": zeros}),
        fingerprint({"b": zeros}),
        fingerprint({"a": zeros.view(2, 3)}),
        fingerprint({"a": zeros.view(torch.int32)}),
        fingerprint({"a": zeros}, ""),
        fingerprint({"a": zeros}, "{}"),
        fingerprint({}, "{}"),
    ]
    assert len(set(variants)) == len(variants)


def test_order_layout_and_library_do_not_count():
    a, b = torch.randn(4, 5), torch.randn(3)
    assert fingerprint({"a": a, "b": b}) == fingerprint({"b": b, "a": a.t().contiguous().t()})
    assert (
        fingerprint({"a": a})
        == fingerprint({"a": a.numpy()})
        == fingerprint({"a": np.asfortranarray(a.numpy())})
    )
    assert fingerprint({"a": torch.zeros(0)}) == fingerprint({"a": np.zeros(0, np.float32)})
