"""A profile  ->  the job in a few lines: the chip, the most of each memory, the network's size, the ledger's chart."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from axtool.errors import UnsupportedError, plural
from axtool.report.bars import bars
from axtool.report.profile import Request, profile
from axtool.report.profiled import profile_document
from axtool.report.tables import table
from axtool.report.units import seconds, size

# Of the document of `profile`, in its words.
KEPT = (
    "target", "clock_hz", "cores", "cycles", "latency_ms", "peak_ocm_bytes", "ocm_bytes", "peak_lrm_bytes",
    "lrm_bytes_per_pe", "peak_spilled_bytes", "external_read_bytes", "external_write_bytes", "macs",
    "feed_forward_blocks", "feed_forward_macs", "mac_utilisation", "ledger_cycles", "other_cycles",
)  # fmt: skip


def job_of_file(model: Path) -> dict[str, Any] | None:
    """The summary of a compiled file, on its own chip; None where its device runs nothing."""
    try:
        return job_of(profile_document(str(model), profile(Request(model))))
    except UnsupportedError:
        return None


def job_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """The summary as plain values."""
    return {key: document[key] for key in KEPT}


def job_text(job: Mapping[str, Any]) -> str:
    """The same for people. All of it is modelled."""
    took = f"{job['cycles']:,} cycles, {seconds(job['latency_ms'] / 1e3)}"
    reads, writes = size(job["external_read_bytes"]), size(job["external_write_bytes"])
    cells = [
        ("target", f"{job['target']}, {plural(job['cores'], 'core')}, {job['clock_hz'] / 1e9:.3f} GHz"),
        ("max on-chip memory (L2M)", f"{size(job['peak_ocm_bytes'])} of {size(job['ocm_bytes'])}"),
        ("max local memory (LRM)", f"{size(job['peak_lrm_bytes'])} of {size(job['lrm_bytes_per_pe'])} an element"),
        ("max temporary external", size(job["peak_spilled_bytes"])),
        ("external traffic of a frame", f"{reads} read, {writes} written"),
        ("network", _network(job)),
        ("a frame on one core", took),
    ]
    shown = table(("job, modelled", ""), cells)
    return "\n".join((shown, bars(job["ledger_cycles"], job["other_cycles"])))


def _network(job: Mapping[str, Any]) -> str:
    whole, blocks = f"{job['macs'] / 1e9:.3f} GMACs", job["feed_forward_blocks"]
    if not blocks:
        return whole
    outside = (job["macs"] - job["feed_forward_macs"]) / 1e9
    return f"{whole}, {outside:.3f} outside {plural(blocks, 'feed-forward block')}"
