"""Give every slot an offset in its memory so that no two live ones overlap.

Best fit in four fixed orders, from below and then in turns from below and above; where that leaves more than two per
cent over the largest live set, a bounded search by swaps with a fixed seed. The lowest peak wins. No clock, so the same
program gets the same plan on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from random import Random

from axtool.types import Slot

ALIGNMENT = 64  # bytes: one beat of the on-chip port
TOLERANCE = 1.02  # a peak this close to the largest live set is not searched any further
SWAPS, SWAP_WORK = 400, 60_000  # placements of a search, and slots that it places in all
ORDERS: tuple[Callable[[Slot], tuple[int, ...]], ...] = (
    lambda s: (-s.size, s.first),
    lambda s: (-s.size * (s.last - s.first + 1), s.first),
    lambda s: (s.first - s.last, -s.size),
    lambda s: (s.first, -s.size),
)
SHORT_LIFE = 16  # layers: what lives beside a slot is looked up layer by layer up to here, slot by slot from here on


def place(slots: Sequence[Slot]) -> tuple[Slot, ...]:
    """The slots, in the order given, with offsets: multiples of 64, no overlap between slots that live together."""
    bound = lower_bound(slots)
    tries: list[tuple[int, int, list[int], list[int], int | None]] = []
    for ceiling in (None, bound):
        for order in ORDERS:
            sequence = sorted(range(len(slots)), key=lambda i, order=order: order(slots[i]))  # type: ignore[misc]
            offsets = _offsets(slots, sequence, ceiling)
            tries.append((_top(slots, offsets), len(tries), offsets, sequence, ceiling))
            if tries[-1][0] <= bound:
                break
    top, _, offsets, sequence, ceiling = min(tries)
    if top > TOLERANCE * bound:
        offsets = _swap(slots, sequence, ceiling, offsets, bound)
    return tuple(replace(s, offset=offset) for s, offset in zip(slots, offsets, strict=True))


def peak(slots: Iterable[Slot]) -> int:
    """The end of the highest slot, in bytes, rounded up to the alignment."""
    return max((align(s.offset + s.size) for s in slots), default=0)


def lower_bound(slots: Sequence[Slot]) -> int:
    """Bytes of the largest set of slots that live at one time: no placement has a lower peak."""
    return max(live_bytes(slots), default=0)


def live_bytes(slots: Sequence[Slot]) -> list[int]:
    """Bytes that live at each layer, from 0 to the last one of any slot."""
    change = [0] * (max((s.last for s in slots), default=-1) + 2)
    for slot in slots:
        change[slot.first] += align(slot.size)
        change[slot.last + 1] -= align(slot.size)
    total, live = 0, []
    for delta in change[:-1]:
        total += delta
        live.append(total)
    return live


def align(size: int) -> int:
    """The next multiple of the alignment."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def _swap(slots: Sequence[Slot], sequence: list[int], ceiling: int | None, offsets: list[int], bound: int) -> list[int]:
    """Place the slot that reaches highest before another one, keep what is not worse, stop near the bound."""
    random = Random(len(slots))
    sequence, lowest = list(sequence), _top(slots, offsets)
    for _ in range(min(SWAPS, SWAP_WORK // len(slots))):
        if lowest <= TOLERANCE * bound:
            break
        highest = max(range(len(slots)), key=lambda i: offsets[i] + slots[i].size)
        late = sequence.index(highest)
        early = random.randrange(late) if late else random.randrange(len(slots))
        sequence[early], sequence[late] = sequence[late], sequence[early]
        tried = _offsets(slots, sequence, ceiling)
        if (top := _top(slots, tried)) <= lowest:
            offsets, lowest = tried, top
        else:
            sequence[early], sequence[late] = sequence[late], sequence[early]
    return offsets


def _top(slots: Sequence[Slot], offsets: Sequence[int]) -> int:
    return max((offset + align(s.size) for offset, s in zip(offsets, slots, strict=True)), default=0)


def _offsets(slots: Sequence[Slot], sequence: Sequence[int], ceiling: int | None = None) -> list[int]:
    """Best fit. With a ceiling every second slot hangs from the top of its gap: neighbours of a chain then meet."""
    offsets = [0] * len(slots)
    by_layer: dict[int, list[int]] = {}  # placed slots that live at a layer
    for turn, index in enumerate(sequence):
        slot, size = slots[index], align(slots[index].size)
        if slot.last - slot.first < SHORT_LIFE:
            alive = {other for layer in range(slot.first, slot.last + 1) for other in by_layer.get(layer, ())}
        else:  # most of what is placed lives at many of its layers
            alive = {i for i in sequence[:turn] if slots[i].first <= slot.last and slot.first <= slots[i].last}
        gaps, end = [], 0
        for start, stop in sorted((offsets[other], offsets[other] + align(slots[other].size)) for other in alive):
            if start - end >= size:
                gaps.append((start - end, end))
            end = max(end, stop)
        if ceiling is not None and ceiling - end >= size:
            gaps.append((ceiling - end, end))
        room, at = min(gaps) if gaps else (size, end)
        offsets[index] = at + room - size if ceiling is not None and turn % 2 else at
        for layer in range(slot.first, slot.last + 1):
            by_layer.setdefault(layer, []).append(index)
    return offsets
