"""The DPU target against the frames a second that its vendor publishes."""

import numpy as np
import pytest

from benchmarks.validation import dpu
from benchmarks.validation.networks import NETWORKS
from benchmarks.validation.rows import median_error
from benchmarks.validation.shapes import counts

CLOSE = 0.15  # of a published figure, in the middle
GOPS = 0.05  # networks are those of the zoo as far as its own rounding says
FIT = 0.01  # of the mean error that a fit on the day could gain
BUT = ("mobilenet-v3-small", "unet-512-16", "mobilenet-edge")  # counted otherwise by the zoo: see ABOUT


@pytest.mark.parametrize("network", ["resnet18", "resnet18-176x80"])
def test_a_network_is_about_as_fast_as_published(network):
    figure = next(figure for figure in dpu.published() if figure.network == network)
    assert dpu.predicted(network) == pytest.approx(figure.one, rel=dpu.SINGLE)


def test_the_host_hides_behind_the_device_with_several_threads():
    assert dpu.predicted("mobilenet-v1-0.5-160", host=False) > dpu.predicted("mobilenet-v1-0.5-160")
    figure = next(figure for figure in dpu.published() if figure.network == "mobilenet-v1-0.5-160")
    assert dpu.predicted("mobilenet-v1-0.5-160", host=False) == pytest.approx(figure.several, rel=dpu.SINGLE)


def test_networks_have_the_operations_that_the_zoo_counts():
    for figure in dpu.published():
        if figure.network not in BUT:
            macs, _ = counts(NETWORKS[figure.network].build().model)
            assert 2 * macs / 1e9 == pytest.approx(figure.gops, rel=GOPS), figure.model


@pytest.mark.slow
def test_every_figure_that_is_asked_for_holds():
    rows = dpu.rows()
    assert [row.name for row in rows if row.holds is False] == []
    assert all(rule.holds for rule in dpu.rules(rows))


@pytest.mark.slow
def test_figures_left_out_of_the_fit_are_predicted_as_well():
    assert median_error(dpu.leave_one_out()) <= CLOSE


@pytest.mark.slow
def test_no_other_constants_fit_much_better_than_those_of_the_file():
    target = dpu.load_target(dpu.TARGET)
    rate = target.external.read_bytes_per_s / 1e9
    assert target.external.write_bytes_per_s == target.external.read_bytes_per_s
    best = dpu.spread(dpu.RATES, dpu.ENTRIES).min()
    assert dpu.spread(np.array([rate]), np.array([target.costs["entry"]]))[0, 0] <= best + FIT
