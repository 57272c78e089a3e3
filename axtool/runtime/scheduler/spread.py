"""On how many cores a batch is worth running: what it saves against what it costs to change the models of cores.

With n frames of t seconds each and cores that are ready r seconds from now (0 where they hold the model, else what it
takes to load it), the last frame ends at the smallest T for which sum(floor((T - r) / t)) >= n. A further core is worth
it when T becomes earlier by more than it takes to put the core's own model back. All seconds are modelled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from heapq import heapify, heappop, heappush
from itertools import accumulate

from axtool.runtime.devices.model import DeviceModel
from axtool.runtime.op.device_ops import AxRuntimeModel
from axtool.runtime.op.operator import Operator, walk
from axtool.runtime.scheduler.cores import CoreView
from axtool.runtime.scheduler.owner import Owner


@contextmanager
def spread(owner: Owner, pipeline: Operator, frames: int) -> Iterator[None]:
    """Inside, the model of a pipeline may use the further cores that so many frames are worth.

    Of several models it is the one that takes longest, and the others keep their cores. A model whose file was loaded
    with a `core_allocation` keeps to it. Nothing is lent where nothing models the frame, or while another batch has a
    loan for the model.
    """
    models = models_of(pipeline)
    cores = owner.connected() if models and frames > 1 else None
    if cores is None:
        yield
        return
    views = {model.key: cores.view(model) for model in models}
    slowest = max(models, key=lambda model: frame_s(views[model.key]))
    own = {model.key for model in models if model is not slowest}
    free = [view for view in views[slowest.key] if view.holds not in own]
    chosen = () if slowest.core_allocation is not None else worthwhile(frames, slowest.key, free)
    if not chosen:
        yield
        return
    with cores.lent(slowest, chosen):
        yield


def models_of(pipeline: Operator) -> tuple[DeviceModel, ...]:
    """The compiled models in a pipeline, each once."""
    found = {one.part.model.key: one.part.model for one in walk(pipeline) if isinstance(one, AxRuntimeModel)}
    return tuple(found.values())


def worthwhile(frames: int, key: str, views: Sequence[CoreView]) -> tuple[int, ...]:
    """The indices of the cores without the model of `key` that are worth loading with it for so many frames.

    Empty ones come first, then those that are quickest to load and to put back. Cores that run something are left.
    """
    seconds = frame_s(views)
    ready = [0.0 for view in views if view.holds == key]
    if not ready or seconds <= 0:
        return ()
    others = sorted(
        (view for view in views if view.holds != key and view.idle),
        key=lambda view: (view.switch_s + view.back_s, view.index),
    )
    chosen: list[int] = []
    ends = last_end(frames, seconds, ready)
    for view in others:
        sooner = last_end(frames, seconds, [*ready, view.switch_s])
        if ends - sooner <= view.back_s:
            break
        chosen.append(view.index)
        ready.append(view.switch_s)
        ends = sooner
    return tuple(chosen)


def last_end(frames: int, frame_s: float, ready: Sequence[float]) -> float:
    """When the last of so many frames ends on cores that are ready at these times, each given to the soonest one."""
    sums = accumulate(sorted(ready))
    soon = min((frames * frame_s + total) / count for count, total in enumerate(sums, 1)) - frame_s  # no end before
    given = [max(0, int((soon - begin) / frame_s)) for begin in ready]  # what is certain; the rest one by one
    ends = [(begin + (count + 1) * frame_s, at) for at, (begin, count) in enumerate(zip(ready, given, strict=True))]
    last = max((end - frame_s for (end, _), count in zip(ends, given, strict=True) if count), default=0.0)
    heapify(ends)
    for _ in range(frames - sum(given)):
        end, at = heappop(ends)
        last = max(last, end)
        heappush(ends, (end + frame_s, at))
    return last


def frame_s(views: Sequence[CoreView]) -> float:
    """Seconds of a frame of the model that is looked at; 0 where nothing says them."""
    return next((view.frame_s for view in views if view.frame_s is not None), 0.0)
