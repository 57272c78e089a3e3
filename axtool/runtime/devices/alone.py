"""A device stage in the calling thread, on a session that no other thread uses meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from weakref import WeakKeyDictionary

from axtool.runtime.device import DeviceSession
from axtool.runtime.devices.model import DeviceModel
from axtool.runtime.devices.seam import Buffer, private_copies

_IDLE: WeakKeyDictionary[DeviceModel, dict[int, list[DeviceSession]]] = WeakKeyDictionary()
_LOCK = Lock()


def run_alone(model: DeviceModel, stage: int, inputs: Sequence[Buffer]) -> Sequence[Buffer]:
    """Inputs and outputs in the order of the program; the outputs are the caller's own."""
    with _LOCK:
        idle = _IDLE.setdefault(model, {}).setdefault(stage, [])
        session = idle.pop() if idle else None
    session = session or model.session(stage)
    try:
        found = session.run_buffers(dict(zip(session.program.inputs, inputs, strict=True)))
        return private_copies([found[name] for name in session.program.outputs], None)
    finally:
        with _LOCK:
            idle.append(session)
