"""A selector ('0,1', 'metis-0:1:0', None for all)  ->  the devices that it names, in its order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from axtool.errors import UsageError
from axtool.runtime.devices.seam import DeviceInfo

Selector = str | int | Sequence[str | int] | None


class UnknownDevice(UsageError, ValueError):
    """A selector names a device that is not there, or one twice."""

    code = "unknown-device"


def select_devices(selector: Selector, devices: Sequence[DeviceInfo]) -> list[DeviceInfo]:
    """The devices that a selector names: a comma-separated list of zero-based indices and names, or a list of them.

    None and an empty text are all devices. Raises UnknownDevice, a ValueError, with the devices that there are.
    """
    parts = _parts(selector)
    if not parts:
        return list(devices)
    chosen: list[DeviceInfo] = []
    for part in parts:
        device = _named(part, selector, devices)
        if device in chosen:
            raise UnknownDevice(
                f"the selector {selector!r} names {device.name} twice",
                hint=f"name each device once; there are: {listed(devices)}",
            )
        chosen.append(device)
    return chosen


def listed(devices: Iterable[DeviceInfo]) -> str:
    """`0 metis-0:1:0, 1 metis-0:2:0`, for messages."""
    return ", ".join(f"{index} {device.name}" for index, device in enumerate(devices)) or "none"


def _parts(selector: Selector) -> list[str]:
    if selector is None:
        return []
    items: Sequence[object]
    if isinstance(selector, (str, int)):
        items = [selector]
    elif isinstance(selector, (list, tuple)):
        items = selector
    else:
        raise UnknownDevice(_unfit(selector), hint="devices='0,1', devices='metis-0:1:0', or None for all")
    parts: list[str] = []
    for item in items:
        if isinstance(item, bool) or not isinstance(item, (str, int)):
            raise UnknownDevice(_unfit(item), hint="devices='0,1', devices='metis-0:1:0', or None for all")
        text = str(item)
        found = [part.strip() for part in text.split(",")]
        if found == [""] and isinstance(selector, str):
            return []
        if "" in found:
            raise UnknownDevice(
                f"the selector {selector!r} has an empty part", hint="write '0,1', without a comma more"
            )
        parts += found
    return parts


def _unfit(value: object) -> str:
    return f"a device selector is a text, got {type(value).__name__} {value!r}"


def _named(part: str, selector: Selector, devices: Sequence[DeviceInfo]) -> DeviceInfo:
    if part.isascii() and part.isdigit() and len(part) < 10:
        if int(part) < len(devices):
            return devices[int(part)]
    else:
        for device in devices:
            if device.name == part:
                return device
    whole = "" if part == selector or selector == [part] else f" (in {selector!r})"
    raise UnknownDevice(f"there is no device '{part}'{whole}", hint=f"there are: {listed(devices)}")
