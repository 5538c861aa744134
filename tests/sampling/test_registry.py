"""The one list of kernels and decoders."""

import re
from dataclasses import fields

import pytest

import unmask
from support.sampling_cases import settings_of, small_target
from unmask.common.border.options import arguments, options
from unmask.common.errors import InputError
from unmask.sampling.decoders.decoder import DECODERS, decode
from unmask.sampling.engine.randomness import ChainStreams
from unmask.sampling.kernels.kernel import KERNELS
from unmask.sampling.methods import METHODS


@pytest.mark.parametrize("name", METHODS)
def test_every_entry_makes_what_it_names(name):
    target = small_target(seed=1)
    method = settings_of(kernel=name, passes=2, order="left-to-right").kernel
    made = method.on(target)
    assert made.method == method
    rng = ChainStreams(0, range(2)).at(0, 0)
    if method.decodes:
        target.check(decode(made, 2, rng)[0].ids)
    else:
        state, _ = made.init(target.template_ids.repeat(2, 1).zero_())
        sites = [[0, 2], [1, 0]] if method.sites_per_step == 2 else [[1]] * len(state.ids)
        state, info = made.step(state, rng, state.rows.new_tensor(sites))
        assert info.sites.shape[1] == method.sites_per_step


def test_options_are_documented_and_labels_and_colours_tell_kernels_apart():
    for entry in METHODS.values():
        documented = {
            name
            for one in entry.__mro__
            for name in re.findall(r"^        (\w+): ", one.__doc__ or "", re.MULTILINE)
        }
        assert {field.name for field in fields(entry)} == documented
    assert (
        len({entry.label for entry in METHODS.values()})
        == len({entry.colour for entry in METHODS.values()})
        == len(METHODS)
    )


@pytest.mark.parametrize(
    ("registry", "verb", "argument"),
    [(KERNELS, unmask.sample, "kernel"), (DECODERS, unmask.generate, "decoder")],
    ids=["kernels", "decoders"],
)
def test_options_that_a_method_does_not_use_are_refused(registry, verb, argument):
    every = {field.name for entry in registry.values() for field in fields(entry)}
    for name, entry in registry.items():
        for option in every - {field.name for field in fields(entry)}:
            wanted = f"{option} was given, which {argument} {name} does not use"
            with pytest.raises(InputError, match=wanted):
                arguments(verb, {argument: name, option: 1})


@pytest.mark.parametrize("name", METHODS)
def test_each_verb_has_the_options_of_its_methods_alone(name):
    of_sample = {option.name for option in options(unmask.sample)}
    of_generate = {option.name for option in options(unmask.generate)}
    own = {field.name for field in fields(METHODS[name])}
    if METHODS[name].decodes:
        assert own <= of_generate
        assert not own & of_sample
    else:
        assert own <= of_sample
        assert not own & of_generate
