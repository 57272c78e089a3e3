"""Postambles as people write them: behind `--postamble`, and the kernels that fit a model as lines of `info`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from axtool.runtime.postamble import SLOTS


def written(postamble: Mapping[str, Any]) -> str:
    """`UltralyticsYoloPostamble,num_classes=80`: as `--postamble` takes it."""
    kernel = next(str(postamble[slot]) for slot in SLOTS if slot in postamble)
    params = [f"{key}={_value(value)}" for key, value in postamble.items() if key not in SLOTS]
    return ",".join([kernel, *params])


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def kernel_lines(file: str, kernels: Sequence[Mapping[str, Any]]) -> list[str]:
    """Each kernel that fits, the line to paste, where its parameters are from, and how to check it."""
    lines = []
    for number, row in enumerate(kernels):
        head = "kernels" if number == 0 else ""
        lines.append(f"  {head:<7} {row['python']} fits by shape")
        lines += [f"            {key} is from {origin}" for key, origin in row["origins"].items()]
        lines += [f"            {key}: to be added, {what}" for key, what in row["missing"].items()]
    if kernels:
        row = kernels[0]
        option = ",".join([written(row["postamble"]), *(f"{key}=…" for key in row["missing"])])
        lines.append(
            f"          check with `axtool verify {shlex.quote(file)} --data DATA --postamble {_quoted(option)}`"
        )
    return lines


def _quoted(option: str) -> str:
    plain = all(letter.isalnum() or letter in "_,=.:-…" for letter in option)
    return option if plain else shlex.quote(option)
