"""The engine benchmark on a network of three layers: the peers are what they claim, the rows are complete."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from axtool.sim.engine import native_available
from benchmarks import engine
from benchmarks.networks import NETWORKS, Net
from benchmarks.peer import FORMS, open_session, quantize_model, random_samples, strip_ends
from benchmarks.table import Row

SHAPE = (1, 3, 16, 16)


def tiny() -> onnx.ModelProto:
    net = Net("tiny", SHAPE)
    x = net.conv("images", 16, 3, 2, act="silu")
    return net.model([net.conv(net.op("Concat", *net.halves(x), axis=1, channels=16), 8)])


@pytest.fixture(scope="module", params=FORMS)
def peer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> onnx.ModelProto:
    folder = tmp_path_factory.mktemp("peer")
    onnx.save(tiny(), folder / "tiny.onnx")
    return quantize_model(folder / "tiny.onnx", folder, request.param, random_samples(SHAPE, 2))


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    if not native_available():
        pytest.skip("the native engine is not built")
    return engine.compare(engine.build("tiny", tiny(), tmp_path_factory.mktemp("tiny")), rounds=2)


def test_stripping_leaves_bytes_at_both_ends(peer: onnx.ModelProto) -> None:
    session = open_session(strip_ends(peer).SerializeToString(), 1)
    assert {end.type for end in (*session.get_inputs(), *session.get_outputs())} == {"tensor(uint8)"}


def test_a_stripped_peer_computes_what_the_whole_one_does(peer: onnx.ModelProto) -> None:
    (feeds,) = random_samples(SHAPE, 1, seed=7)
    whole = open_session(peer.SerializeToString(), 1).run(None, feeds)[0]
    numbers = {init.name: onnx.numpy_helper.to_array(init) for init in peer.graph.initializer}
    first = next(node for node in peer.graph.node if "images" in node.input)
    last = next(node for node in peer.graph.node if peer.graph.output[0].name in node.output)
    scale, zero = (numbers[name] for name in first.input[1:])
    stored = np.clip(np.rint(feeds["images"] / scale) + zero, 0, 255).astype(np.uint8)
    session = open_session(strip_ends(peer).SerializeToString(), 1)
    out = session.run(None, {session.get_inputs()[0].name: stored})[0].astype(np.int32)
    scale, zero = (numbers[name] for name in last.input[1:])
    np.testing.assert_allclose((out - zero) * scale, whole, rtol=1e-6, atol=1e-6)


def test_stripping_refuses_a_model_with_float_ends() -> None:
    with pytest.raises(ValueError, match="input 'images' is read by"):
        strip_ends(tiny())


def test_every_comparison_is_a_row(rows: list[Row]) -> None:
    assert [(row["measured"], row["threads"]) for row in rows] == [
        ("device part", 1),
        ("device part", 2),
        ("2 threads over 1", 2),
        ("2 engines at once", 2),
        ("float to float", 1),
        ("every tensor exposed", 1),
    ]


def test_a_ratio_is_the_time_of_the_peer_over_ours(rows: list[Row]) -> None:
    for row in rows:
        frames = 2 if row["measured"] == "2 engines at once" else 1
        assert row["ratio"] == pytest.approx(frames * row["peer"]["median_ms"] / row["ours"]["median_ms"], rel=0.05)


def test_the_peer_is_the_faster_of_its_forms(rows: list[Row]) -> None:
    for row in rows:
        for other in row.get("other_peers", {}).values():
            assert row["peer"]["median_ms"] <= other["median_ms"]


def test_our_side_says_its_instruction_set(rows: list[Row]) -> None:
    assert {row["ours"]["isa"] for row in rows} == {engine.isa()}


def test_every_network_that_is_compared_has_a_target() -> None:
    assert engine.TARGETS.keys() == NETWORKS.keys()


def test_a_network_with_a_host_part_is_refused(tmp_path: Path) -> None:
    net = Net("tail", SHAPE)
    model = net.model([net.op("Softmax", net.conv("images", 8, 3), axis=1)])
    with pytest.raises(ValueError, match="tail is not one device stage"):
        engine.build("tail", model, tmp_path)
