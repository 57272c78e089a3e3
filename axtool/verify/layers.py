"""A compiled model and its source over data  ->  the figures of every device layer (`axtool.quant.layers`)."""

from __future__ import annotations

from collections.abc import Callable

from axtool.quant.layer_figures import LayerFigures
from axtool.quant.layers import check_layers
from axtool.quant.tie_costs import add_to_figures, tie_costs
from axtool.target_file import target_from_dict
from axtool.types import Quantization
from axtool.verify.check import Opened, Request, open_request


def verify_layers(request: Request, count: Callable[[int, int], None] = lambda done, total: None) -> list[LayerFigures]:
    """The figures of every device layer whose output the float model has, in order."""
    opened = open_request(request)
    target = target_from_dict(opened.model.artefact.target)
    factors = opened.model.artefact.quantization.get("factors", {})
    figures, _ = check_layers(opened.front.parts.stages, opened.model.stages, opened.samples, target, factors, count)
    _add_ties(opened, {row.layer.outputs[0]: row for row in figures})
    return figures


def _add_ties(opened: Opened, figures: dict[str, LayerFigures]) -> None:
    """What the ties cost that the stored formats and the source's graph show."""
    for device in opened.model.devices:
        formats = {name: tensor.format for name, tensor in device.program.tensors.items()}
        for stage in opened.front.parts.stages:
            if stage.kind == "device":
                add_to_figures(tie_costs(stage.sites, Quantization(formats, {}, {}), figures), figures)
