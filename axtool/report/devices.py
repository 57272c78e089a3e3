"""Devices and boards  ->  a JSON document, text and YAML: what can run a compiled model, and how it is described."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from axtool.errors import UsageError, nearest
from axtool.report.constants import board_constants, counted
from axtool.report.described import file_text, path_or_name, with_constants
from axtool.report.tables import folded, table
from axtool.report.units import header, seconds, size
from axtool.runtime.device_config import VARIABLE, BoardConfig, from_environment
from axtool.runtime.devices import machine
from axtool.runtime.devices.boards import Board, list_boards, load_board
from axtool.runtime.devices.seam import Device
from axtool.runtime.devices.select import select_devices

ACTIONS = ("list", "boards", "show", "check")


def devices_document(action: str, name: str | None, *, boards: str | None, selector: str | None) -> dict[str, Any]:
    """`list` the devices, or those that a selector names; the `boards` that there are, or `show` or `check` one.

    Raises UsageError as `machine.devices`, `select_devices` and `load_board`.
    """
    _refuse_idle(action, name, boards, selector)
    if action == "list":
        seen = machine.devices() if boards is None else machine.make(boards).devices
        chosen = {info.name for info in select_devices(selector, [device.info for device in seen])}
        settings = from_environment()
        return {
            **header("devices"),
            "action": action,
            "devices": [_device(at, device) for at, device in enumerate(seen) if device.info.name in chosen],
            "settings": None if settings is None else settings.said(),
            "boards": [],
        }
    if action == "boards":
        shown = [_board(load_board(one)) for one in list_boards()]
        return {**header("devices"), "action": action, "devices": [], "boards": shown}
    board = load_board(path_or_name(str(name), list_boards()))
    found = board_constants(board)
    return {
        **header("devices"),
        "action": action,
        "devices": [],
        "boards": [_board(board)],
        "constants": [asdict(constant) for constant in found],
        "origins": counted(found),
    }


def board_yaml(name: str) -> str:
    """The file of a board as it is, comments too. Raises UsageError as `load_board`."""
    load_board(path_or_name(name, list_boards()))
    return file_text("boards", name, list_boards())


def devices_text(document: Mapping[str, Any]) -> str:
    """The same for people."""
    if document["action"] == "list":
        return _devices_text(document)
    text = _boards_text(document["boards"])
    if document["action"] == "boards":
        return text
    return with_constants(text, document)


def _devices_text(document: Mapping[str, Any]) -> str:
    columns = ("", "device", "board", "board model", "cores", "in use", "clock", "memory", "link", "provenance")
    rows = [
        (
            row["index"], row["name"], row["board"], row["board_model"], row["cores"], row["cores_in_use"],
            _clock(row["clock_hz"]), size(row["memory_bytes"]), _rate(row["link_bytes_per_s"]), row["provenance"],
        )
        for row in document["devices"]
    ]  # fmt: skip
    settings = document["settings"]
    if settings is None:
        said = [f"{VARIABLE}=0: boards are left as they are."]
    else:
        said = [f"{VARIABLE} sets {BoardConfig(**settings)} on every board."] if settings else []
    notes = ["In use: cores that this process has connected to. Link: each way."]
    return "\n".join(
        [table(columns, rows, right=(0, 4, 5, 6, 7, 8), droppable=(2, 5, 8, 9, 7)), "", *map(folded, [*notes, *said])]
    )


def _boards_text(boards: list[Mapping[str, Any]]) -> str:
    columns = ("board", "board model", "type", "chip", "cores", "clock", "memory", "link", "switch")
    rows = [
        (
            row["name"], row["board_model"], row["board_type"], row["chip"] or "any", row["cores"],
            _clock(row["clock_hz"]), size(row["memory_bytes"]), _rate(row["link_bytes_per_s"]),
            seconds(row["switch_s"]),
        )
        for row in boards
    ]  # fmt: skip
    return "\n".join(
        [
            table(columns, rows, right=range(4, 9), droppable=(2, 8, 3)),
            "",
            folded("Link: each way. Switch: to start another model on a core, beside its transfer; modelled."),
            *(folded(f"{row['name']}: {row['description']}") for row in boards if row["description"]),
        ]
    )  # fmt: skip


def _clock(hertz: float) -> str:
    return f"{hertz / 1e6:,.0f} MHz"


def _rate(bytes_per_s: float | None) -> str:
    return "" if bytes_per_s is None else f"{bytes_per_s / 1e9:.3g} GB/s"


def _device(index: int, device: Device) -> dict[str, Any]:
    info = device.info
    return {
        "index": index,
        "name": info.name,
        "board": info.board,
        "board_model": info.board_model,
        "board_type": info.board_type,
        "cores": info.cores,
        "cores_in_use": info.cores - device.available(),
        "clock_hz": info.clock_hz,
        "memory_bytes": info.memory_bytes,
        "link_bytes_per_s": info.link_bytes_per_s,
        "queue": info.queue,
        "provenance": info.provenance,
    }


def _board(board: Board) -> dict[str, Any]:
    return {
        "name": board.name,
        "description": board.description,
        "chip": board.chip,
        "board_model": board.board_model,
        "board_type": board.board_type,
        "cores": board.cores,
        "clock_hz": board.clock_hz,
        "memory_bytes": board.memory_bytes,
        "link_bytes_per_s": board.link.bytes_per_s,
        "switch_s": board.switch_s,
    }


def _refuse_idle(action: str, name: str | None, boards: str | None, selector: str | None) -> None:
    """Raise UsageError for words that the action would not look at, or that it lacks."""
    if action not in ACTIONS:
        raise UsageError(f"there is no action '{action}'", hint=nearest(action, ACTIONS), code="bad-option")
    if action in ("list", "boards"):
        if name is not None:
            raise UsageError(
                f"`devices {action}` lists all and takes no '{name}'", hint=f"axtool devices show {name}", code="usage"
            )
    elif name is None:
        raise UsageError(f"`devices {action}` wants a board", hint=", ".join(list_boards()), code="usage")
    if action != "list" and not (boards is None and selector is None):
        raise UsageError("--boards and --devices go with `devices list`", code="bad-option")
