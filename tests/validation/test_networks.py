"""The networks of the validation have the sizes that were published, and cost no room."""

import pytest

from axtool.target_file import load_target
from benchmarks.validation.networks import NETWORKS
from benchmarks.validation.shapes import counts
from benchmarks.validation.timing import timed

CLOSE = 0.02  # published figures are rounded, and count BatchNorm


@pytest.mark.parametrize("name", [name for name, network in NETWORKS.items() if network.gmacs])
def test_multiply_accumulates_are_those_published(name):
    network = NETWORKS[name]
    assert counts(network.build().model)[0] / 1e9 == pytest.approx(network.gmacs, rel=CLOSE)


@pytest.mark.parametrize("name", [name for name, network in NETWORKS.items() if network.mparams])
def test_parameters_are_those_published(name):
    network = NETWORKS[name]
    assert counts(network.build().model)[1] / 1e6 == pytest.approx(network.mparams, rel=CLOSE)


def test_the_file_of_a_large_network_takes_no_room(tmp_path):
    NETWORKS["vgg16"].build().write(tmp_path)
    blocks = sum(path.stat().st_blocks * 512 for path in tmp_path.iterdir())
    assert blocks < 1 << 20


def test_no_pass_takes_two_layers_of_one_shape_for_the_same():
    timing = timed("squeezenet1.1", load_target("qc-u-1d7-16mb"))
    assert timing.macs == counts(NETWORKS["squeezenet1.1"].build().model)[0]
