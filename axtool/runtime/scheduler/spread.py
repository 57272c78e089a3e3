"""On how many cores a batch is worth running: what it saves against what it costs to change the models of cores.

With n frames of t seconds each and cores that are ready r seconds from now (0 where they hold the model, else what it
takes to load it), the last frame ends at the smallest T for which sum(floor((T - r) / t)) >= n. So many further cores
are taken as make it least until the batch is done and their own models are back, each on its core. All seconds are
modelled.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from axtool.runtime.devices.model import DeviceModel
from axtool.runtime.op.device_ops import AxRuntimeModel
from axtool.runtime.op.operator import Operator, walk
from axtool.runtime.scheduler.cores import CoreView
from axtool.runtime.scheduler.owner import Owner

_ROUNDING = 1e-9  # frames: what a quotient of seconds may miss a whole number by


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
    best, least, back = 0, last_end(frames, seconds, ready), 0.0
    for count, view in enumerate(others[:frames], 1):
        ready.append(view.switch_s)
        back = max(back, view.back_s)
        cost = last_end(frames, seconds, ready) + back
        if cost < least:
            best, least = count, cost
    return tuple(view.index for view in others[:best])


def last_end(frames: int, frame_s: float, ready: Sequence[float]) -> float:
    """When the last of so many frames ends on cores that are ready at these times, each frame given to the soonest."""
    cores = Counter(ready)

    def done_by(time_s: float) -> int:
        fits = ((count, (time_s - begin) / frame_s + _ROUNDING) for begin, count in cores.items())
        return sum(count * int(each) for count, each in fits if each > 0)

    def end_of(begin: float) -> float:  # the soonest end of a frame on such a core by which all are done
        last = bisect_left(range(1, frames + 1), frames, key=lambda place: done_by(begin + place * frame_s)) + 1
        return begin + last * frame_s

    return min(end_of(begin) for begin in cores)


def frame_s(views: Sequence[CoreView]) -> float:
    """Seconds of a frame of the model that is looked at; 0 where nothing says them."""
    return next((view.frame_s for view in views if view.frame_s is not None), 0.0)
