"""What an attention keeps in one processing element while it finishes a row of scores, in bytes."""

from __future__ import annotations

from dataclasses import dataclass

TABLE_BYTES = 256 * 2
POWER_TABLE_BYTES = 257 * 4  # of 2^(i / 256), which the exponentials of fp16 scores are taken from
IN_FLIGHT = 2  # of what is streamed: one is worked on, the next one arrives


@dataclass(frozen=True, slots=True)
class Room:
    """Bytes in each element that has a query: its query of one head, the row of scores, streamed keys and values, the
    sums and results of one head, the table.

    A whole row is finished before its softmax. Int8 scores take a byte each, two where a mask is added; scores of fp16
    numbers 4, which the probabilities overwrite. Sums take 4 bytes.
    """

    query: int
    row: int
    streamed: int
    result: int
    table: int

    @property
    def total(self) -> int:
        return self.query + self.row + self.streamed + self.result + self.table


def attention_room(
    keys: int, depth: int, made: int, lanes: int, *, number: int = 1, out: int = 1, mask: bool = False
) -> Room:
    """The room of one head with `depth` channels of q and k and `made` of v, in numbers of `number` bytes.

    `lanes` are the products of a step, `out` the bytes of a number of the result.
    """
    score = 4 if number > 1 else 2 if mask else 1
    table = POWER_TABLE_BYTES if number > 1 else TABLE_BYTES
    streamed = IN_FLIGHT * (min(lanes, depth) + mask) * number
    return Room(depth * number, keys * score, streamed, made * (4 + out), table)
