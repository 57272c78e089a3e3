"""A stored input preparation  ->  the values that have an effect, in the order in which they are applied."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from axtool.inputs.prepare import Preparation


def effective(stored: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The preparation with the scale that is really used, where the user left it open."""
    if stored is None:
        return None
    preparation = Preparation.from_dict(stored)
    return {**preparation.to_dict(), "scale": preparation.factor}


def prepared_text(values: Mapping[str, Any] | None, given: Collection[str] | None = None) -> str:
    """`fit 416x416, RGB, x 1/255, NCHW`. With `given`, what the user did not choose is marked as a default."""
    if values is None:
        return "arrays as they are; no preparation of pictures is stored"
    size = f" {values['size'][0]}x{values['size'][1]}" if values.get("size") else ""
    how = {"letterbox": f" filled with {numbers(values['fill'])}", "crop": f" of {values['crop']:g}"}
    steps = [("resize", f"{values['resize']}{size}{how.get(values['resize'], '')}")]
    if values["resize"] == "letterbox" and values["anchor"] != "center":
        steps.append(("anchor", values["anchor"]))
    if values["interpolation"] != "linear":
        steps.append(("interpolation", values["interpolation"]))
    if values.get("color"):
        steps.append(("color", values["color"]))
    steps.append(("scale", f"x {fraction(values['scale'])}"))
    steps += [("mean", f"- {numbers(values['mean'])}")] if values["mean"] else []
    steps += [("std", f"/ {numbers(values['std'])}")] if values["std"] else []
    if values.get("layout"):
        steps.append(("layout", values["layout"]))
    return ", ".join(text + _mark(key, given) for key, text in steps)


def _mark(key: str, given: Collection[str] | None) -> str:
    if given is None or key in given or key not in ("resize", "color", "scale"):
        return ""
    return " (default: say --scale)" if key == "scale" else " (default)"


def fraction(value: float) -> str:
    """1/255 where it is that; else the number."""
    below = round(1 / value) if value else 0
    return f"1/{below}" if 1 < below < 1e6 and abs(value * below - 1) < 1e-6 else f"{value:g}"


def numbers(values: Sequence[float]) -> str:
    """One number, or (0.485, 0.456, 0.406)."""
    texts = [f"{value:g}" for value in values]
    return texts[0] if len(set(texts)) == 1 else f"({', '.join(texts)})"
