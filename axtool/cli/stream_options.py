"""The options of `axtool run` that are about streams: boards, how many frames at once, what is kept of them."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

import typer

STREAMS = "Streams: videos, cameras, folders"

ShowStats = Annotated[
    bool,
    typer.Option(
        "--show-stats", help="Times of each operator and core; rates of device, host and system.",
        rich_help_panel=STREAMS,
    ),
]  # fmt: skip
Frames = Annotated[
    int | None,
    typer.Option("--frames", metavar="N", min=1, help="Of each source, at most.", rich_help_panel=STREAMS),
]
Devices = Annotated[
    str | None,
    typer.Option(
        "--devices", "-d", metavar="LIST", help="Boards by index or name: 0,1 or metis-0:1:0. Default: all.",
        rich_help_panel=STREAMS,
    ),
]  # fmt: skip
Boards = Annotated[
    str | None,
    typer.Option(
        "--boards", metavar="LIST", help="Simulate these: names of configs/boards or YAML files; metis-pcie*4 is four.",
        rich_help_panel=STREAMS,
    ),
]  # fmt: skip
Realtime = Annotated[
    bool,
    typer.Option("--realtime", help="Each core takes its modelled time for a frame.", rich_help_panel=STREAMS),
]
Replay = Annotated[
    bool,
    typer.Option(
        "--replay", help="Give the outputs of the first frames again instead of computing: for load, not for results.",
        rich_help_panel=STREAMS,
    ),
]  # fmt: skip
ReplayFrom = Annotated[
    Path | None,
    typer.Option("--replay-from", metavar="FILE.npz", help="As --replay, of these outputs.", rich_help_panel=STREAMS),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers", metavar="N", min=1, max=1024, help="Threads of the host. Default: two a core.",
        rich_help_panel=STREAMS,
    ),
]  # fmt: skip
MaxInFlight = Annotated[
    int | None,
    typer.Option(
        "--max-in-flight", metavar="N", min=1, max=65536,
        help="Frames of a source at once. Default: four a core; 1 does all in one thread.", rich_help_panel=STREAMS,
    ),
]  # fmt: skip
OrderOption = Annotated[
    str,
    typer.Option(
        "--order", metavar="as_available|round_robin", help="Of the results of several sources.",
        rich_help_panel=STREAMS,
    ),
]  # fmt: skip
Trace = Annotated[
    Path | None,
    typer.Option(
        "--trace", metavar="FILE.json", help="A lane for each thread and core, for Perfetto or chrome://tracing.",
        rich_help_panel=STREAMS,
    ),
]  # fmt: skip


@dataclass(frozen=True)
class StreamWords:
    """What was said on the command line."""

    show_stats: bool = False
    frames: int | None = None
    devices: str | None = None
    boards: str | None = None
    realtime: bool = False
    replay: bool | Path = False
    workers: int | None = None
    max_in_flight: int | None = None
    order: str = "as_available"
    trace: Path | None = None
    warmup: int = 0

    @property
    def given(self) -> bool:
        """Whether an option of streams was said."""
        return any(getattr(self, field.name) != field.default for field in fields(self))
