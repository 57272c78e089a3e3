"""`Name (x, y) => (z) { ... }`  ->  an ONNX function of the domain of custom ops."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from axtool.ops.custom import DOMAIN

if TYPE_CHECKING:
    import onnx

_HEADER = re.compile(r"^\s*([A-Za-z_]\w*)\s*\(")
_FOREIGN = re.compile(r"\b([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\.[A-Za-z_]\w*\s*[<(]")


def parsed(text: str, opset: int) -> onnx.FunctionProto:
    """An ONNX function from `Name (x) => (y) { ... }`; ops of other domains are written `domain.Op`."""
    import onnx.parser

    if not _HEADER.match(text):
        raise ValueError("it does not begin with a name and inputs: Name (x) => (y) { ... }")
    foreign = sorted(set(_FOREIGN.findall(text)))
    imports = ", ".join([f'"": {opset}', *(f'"{domain}": 1' for domain in foreign)])
    try:
        return onnx.parser.parse_function(f'<domain: "{DOMAIN}", opset_import: [{imports}]> {text}')
    except onnx.parser.ParseError as error:
        raise ValueError(f"its text does not parse: {_said(str(error))}") from error


def _said(text: str) -> str:
    """The parser's own words, without its position in the C++ source."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    kept = [line for line in lines if not line.startswith("[ParseError at") and "onnx/" not in line]
    return (kept or lines or [text])[-1]
