"""Pieces of the device: nodes of one level that hang together, found in time that grows with the graph alone."""

import random
from types import SimpleNamespace
from typing import Any

from axtool.graph.split_place import _pieces


def by_flooding(before: list[list[int]], device: set[int], levels: list[int]) -> list[list[int]]:
    joined = {at: {one for one in before[at] if one in device and levels[one] == levels[at]} for at in device}
    for at in device:
        for one in list(joined[at]):
            joined[one].add(at)
    pieces, seen = [], set[int]()
    for at in sorted(device):
        if at in seen:
            continue
        piece, waiting = set[int](), [at]
        while waiting:
            one = waiting.pop()
            if one not in piece:
                piece.add(one)
                waiting += joined[one]
        seen |= piece
        pieces.append(sorted(piece))
    return pieces


def graph(before: list[list[int]]) -> Any:
    return SimpleNamespace(before=before)


def test_pieces_are_what_hangs_together() -> None:
    rng = random.Random(1)
    for _ in range(300):
        count = rng.randrange(1, 30)
        before = [[rng.randrange(at) for _ in range(rng.randrange(3))] if at else [] for at in range(count)]
        device = {at for at in range(count) if rng.random() < 0.8}
        levels = [rng.randrange(1, 4) for _ in range(count)]
        assert _pieces(graph(before), device, levels) == by_flooding(before, device, levels)


def test_a_long_chain_is_one_piece() -> None:
    count = 30_000  # quadratic work would take minutes
    chain = graph([[], *([at] for at in range(count - 1))])
    assert _pieces(chain, set(range(count)), [1] * count) == [list(range(count))]
