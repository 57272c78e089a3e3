"""The first frames of a model, or a file of them  ->  outputs that a core gives again without computing anything.

So a load of more cores than this machine has can be tested: what is measured is the host, not the simulation of chips.

A file is an .npz with an array (frames, h, w, c) for every output of every device stage, named as its tensor: padded
numbers, as the device gives them. `stem/tensor` speaks of the model `stem.axm` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from threading import Lock

import numpy as np

from axtool.errors import UsageError, nearest
from axtool.inputs.arrays import Stored, open_arrays, save_arrays
from axtool.ops.storing import DTYPES
from axtool.runtime.device import DeviceSession, buffer_shape
from axtool.runtime.devices.model import DeviceModel
from axtool.runtime.devices.seam import Buffer

FRAMES = 4  # of each model that are computed and kept, unless told otherwise
MOST_FRAMES = 10_000

Given = Stored | Buffer  # an array of a file, or one at hand
Frame = Sequence[Buffer]  # the outputs of one stage, in the order of the program


class Recording:
    """Outputs of device stages by model, kept for all cores together. Safe to use from several threads."""

    def __init__(self, frames: int = FRAMES, given: Mapping[str, Given] | None = None, where: str = "") -> None:
        """`frames` of each stage are computed one at a time; from then on they come again in turn.

        With `given`, the arrays of the file `where`, nothing is ever computed. Raises UsageError.
        """
        if isinstance(frames, bool) or not isinstance(frames, int) or not 1 <= frames <= MOST_FRAMES:
            raise UsageError(f"want 1 to {MOST_FRAMES:,} frames to replay, got {frames!r}", code="bad-option")
        self.frames, self._given, self._where = frames, given, where
        self._stages: dict[tuple[str, int], _Stage] = {}
        self._lock = Lock()

    @classmethod
    def of_file(cls, path: Path) -> Recording:
        """What a file holds: its headers now, the outputs of a model when there is one. Raises UsageError as
        `open_arrays`.
        """
        return cls(given=open_arrays(path, "output"), where=str(path))

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write what has been recorded so far, for `of_file`. Raises UsageError as `save_arrays`, or where it is empty.

        The outputs of a model are named by its file where several have been recorded.
        """
        stages = [stage for stage in list(self._stages.values()) if stage.recorded]
        if not stages:
            raise UsageError("nothing has been recorded yet", hint="run a frame first", code="nothing-recorded")
        several = len({stage.stem for stage in stages}) > 1
        arrays: dict[str, Buffer] = {}
        for stage in stages:
            for name, array in stage.recorded.items():
                arrays[f"{stage.stem}/{name}" if several else name] = array
        save_arrays(path, arrays, force=force)

    def prepare(self, model: DeviceModel) -> None:
        """Get ready for a model. Raises UsageError where a file has not its outputs, or others of the name."""
        for index in range(len(model.plans)):
            self._stage(model, index)

    def outputs(self, model: DeviceModel, stage: int, inputs: Frame) -> Frame:
        """Read-only arrays: of these inputs while frames are still recorded, of one recorded before from then on."""
        kept = self._stages.get((model.key, stage)) or self._stage(model, stage)
        return kept.outputs(lambda: model.session(stage), inputs)

    def _stage(self, model: DeviceModel, index: int) -> _Stage:
        key = (model.key, index)
        with self._lock:
            if key not in self._stages:
                stage = _Stage(model, index, self.frames)
                if self._given is not None:
                    stage.take(self._given, self._where)
                self._stages[key] = stage
            return self._stages[key]


class _Stage:
    """The frames of one device stage."""

    def __init__(self, model: DeviceModel, index: int, wanted: int) -> None:
        plan = model.plans[index]
        self.stem = Path(model.name).stem
        self._outputs = {
            name: (buffer_shape(plan, name), np.dtype(DTYPES[plan.program.tensors[name].format.kind]))
            for name in plan.program.outputs
        }
        self._wanted = wanted
        self._frames: list[Frame] = []
        self._session: DeviceSession | None = None
        self._lock = Lock()
        self._turns = count()

    @property
    def recorded(self) -> dict[str, Buffer]:
        """(frames, h, w, c) by output, of what there is so far."""
        frames = list(self._frames)
        if not frames:
            return {}
        return {name: np.concatenate([frame[at] for frame in frames]) for at, name in enumerate(self._outputs)}

    def take(self, given: Mapping[str, Given], where: str) -> None:
        """The frames of a file. Raises UsageError."""
        found = [self._given(given, name, where) for name in self._outputs]
        counts = {array.shape[0] for array in found}
        if len(counts) > 1:
            raise UsageError(
                f"the outputs of '{self.stem}' have {', '.join(map(str, sorted(counts)))} frames; want as many of each",
                where=where, code="bad-recording",
            )  # fmt: skip
        self._wanted = counts.pop()
        self._frames = [tuple(array[at : at + 1] for array in found) for at in range(self._wanted)]

    def outputs(self, session: Callable[[], DeviceSession], inputs: Frame) -> Frame:
        if len(self._frames) < self._wanted:
            with self._lock:
                if len(self._frames) < self._wanted:
                    return self._computed(session, inputs)
        return self._frames[next(self._turns) % self._wanted]

    def _computed(self, session: Callable[[], DeviceSession], inputs: Frame) -> Frame:
        if self._session is None:
            self._session = session()
        program = self._session.program
        made = self._session.run_buffers(dict(zip(program.inputs, inputs, strict=True)))
        frame = tuple(made[name].copy() for name in program.outputs)
        for array in frame:
            array.flags.writeable = False
        self._frames.append(frame)
        if len(self._frames) == self._wanted:
            self._session = None  # its memory is as large as the model
        return frame

    def _given(self, given: Mapping[str, Given], name: str, where: str) -> Buffer:
        """(frames, h, w, c), read-only."""
        stored = given.get(f"{self.stem}/{name}", given.get(name))
        if stored is None:
            raise UsageError(
                f"has no output '{name}' of '{self.stem}'", where=where, hint=nearest(name, tuple(given)),
                code="bad-recording",
            )  # fmt: skip
        shape, dtype = self._outputs[name]
        frames = stored.shape[0] if stored.shape else 0
        if stored.dtype != dtype or stored.shape[1:] != shape[1:] or not 1 <= frames <= MOST_FRAMES:
            raise UsageError(
                f"'{name}' is {stored.dtype} {stored.shape}, want {dtype} (frames, {', '.join(map(str, shape[1:]))}), "
                f"padded as the device gives it, of 1 to {MOST_FRAMES:,} frames",
                where=where, code="bad-recording",
            )  # fmt: skip
        whole = stored.load() if isinstance(stored, Stored) else stored
        array = np.array(whole, order="C")  # read here, and not when the file may have changed
        array.flags.writeable = False
        return array
