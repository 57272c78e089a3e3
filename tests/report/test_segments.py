"""Segments: which layers belong to one block of a model."""

from __future__ import annotations

from axtool.report.segments import segments


def named(*names: str) -> tuple[str, ...]:
    return segments([(name,) for name in names], [(8, 8)] * len(names))


def test_a_block_is_the_first_part_that_differs_between_the_names() -> None:
    names = ("/net/stem/Conv", "/net/stem/Relu", "/net/stage/a/Conv", "/net/stage/b/Conv")
    assert named(*names) == ("stem", "stem", "stage", "stage")


def test_a_block_of_more_than_eight_layers_is_divided_by_the_next_part() -> None:
    names = [f"/layer1/layer1.{block}/conv{i}/Conv" for block in range(3) for i in range(4)]
    found = named("/stem/Conv", "/stem/Pool", *names, "/head/a/Conv", "/head/b/Conv")
    assert list(dict.fromkeys(found)) == ["stem", "layer1/layer1.0", "layer1/layer1.1", "layer1/layer1.2", "head"]


def test_a_small_block_is_not_divided() -> None:
    names = [f"/layer1/layer1.{block}/conv{i}/Conv" for block in range(2) for i in range(4)]
    assert set(named("/stem/Conv", "/stem/Pool", *names)) == {"stem", "layer1"}


def test_the_node_that_a_layer_is_called_by_names_its_block() -> None:
    origins = [("/a/Conv", "/Clip"), ("/a/Conv_1", "/Clip_1"), ("/b/Conv", "/b/Relu"), ("/b/Conv_1",)]
    assert segments(origins, [(8, 8)] * 4) == ("a", "a", "b", "b")


def test_a_layer_that_came_from_no_node_belongs_to_the_block_in_front() -> None:
    assert segments([("/a/Conv",), (), ("/b/Conv",), ("/b/Add",)], [(8, 8)] * 4) == ("a", "a", "b", "b")


def test_names_without_blocks_make_segments_of_one_size() -> None:
    sizes = [(56, 56)] * 6 + [(28, 28)] * 6
    found = segments([(f"Conv_{i}",) for i in range(12)], sizes)
    assert found == ("56x56",) * 6 + ("28x28",) * 6


def test_names_that_differ_in_every_layer_are_no_blocks() -> None:
    assert named(*(f"model/conv2d_{i}/Conv2D" for i in range(12))) == ("8x8",) * 12


def test_names_joined_by_semicolons_are_read_to_the_first() -> None:
    assert named("m/a/Relu;m/b/Conv", "m/a/Conv;m/c/Conv", "m/d/Conv", "m/d/Relu") == ("a", "a", "d", "d")


def test_a_model_of_one_layer_has_one_segment() -> None:
    assert named("Conv_0") == ("8x8",)
    assert segments([], []) == ()
