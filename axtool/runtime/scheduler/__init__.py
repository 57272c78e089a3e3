"""`Scheduler`: the boards, cores and threads that pipelines run on; `create` one for a block, or use `current()`.

A pipeline that runs outside of any block makes a scheduler for the whole process, which is closed at its end:

    detections = pipeline(image)

    with scheduler.create(devices="metis-0:1:0"):
        for image in source:
            detections = pipeline(image)
"""

from axtool.runtime.scheduler.core import Scheduler, SchedulerClosed, SchedulerStats
from axtool.runtime.scheduler.cores import CoreStats
from axtool.runtime.scheduler.default import create, current

__all__ = ["CoreStats", "Scheduler", "SchedulerClosed", "SchedulerStats", "create", "current"]
