"""`ResourceMonitor`: processor time of all threads, and the peak of memory, of a block."""

from __future__ import annotations

import os
import threading
import time

import numpy as np
import pytest

from axtool.runtime import ResourceMonitor
from axtool.runtime.resources import peak_bytes, usable_cores


def burn(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_work_is_processor_time_and_sleep_is_not() -> None:
    with ResourceMonitor() as works:
        burn(0.1)
    with ResourceMonitor() as sleeps:
        time.sleep(0.1)
    assert works.cpu_s >= 0.1
    assert sleeps.cpu_s < 0.09
    assert sleeps.elapsed_s >= 0.1
    assert sleeps.cpu_percent < 90


def test_the_work_of_other_threads_counts() -> None:
    with ResourceMonitor() as found:
        thread = threading.Thread(target=burn, args=(0.1,))
        thread.start()
        thread.join()
    assert found.cpu_s >= 0.1


def test_the_figures_stay_as_they_were_at_the_end() -> None:
    with ResourceMonitor() as found:
        burn(0.01)
    before = (found.cpu_s, found.elapsed_s, found.peak_rss_bytes)
    burn(0.05)
    assert (found.cpu_s, found.elapsed_s, found.peak_rss_bytes) == before


def test_the_figures_can_be_read_inside_of_the_block() -> None:
    with ResourceMonitor() as found:
        burn(0.02)
        first = found.cpu_s
        burn(0.02)
        assert found.cpu_s > first >= 0.02
        assert found.cpu_percent > 0


@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="the peak cannot begin anew")
def test_the_peak_is_that_of_the_block() -> None:
    large = np.ones(80 << 20, np.uint8)
    del large
    with ResourceMonitor() as outer:
        with ResourceMonitor() as inside:
            mine = np.ones(60 << 20, np.uint8)
            del mine
        with ResourceMonitor() as later:
            pass
    assert None not in (outer.peak_rss_bytes, inside.peak_rss_bytes, later.peak_rss_bytes)
    assert inside.peak_rss_bytes - later.peak_rss_bytes > 50 << 20  # type: ignore[operator]
    assert outer.peak_rss_bytes >= inside.peak_rss_bytes  # type: ignore[operator]


def test_the_cores_are_those_that_the_process_may_use() -> None:
    assert ResourceMonitor().core_count == usable_cores() >= 1
    assert usable_cores() <= (os.cpu_count() or 1)


def test_the_text_has_each_figure_with_its_unit_and_says_measured() -> None:
    with ResourceMonitor() as found:
        burn(0.01)
    text = str(found)
    for part in ("% of a processor core", " s", "measured", "MiB" if peak_bytes() else ""):
        assert part in text
