"""`Name (x, y) => (z) { ... }`  ->  an ONNX function of the domain of custom ops."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from axtool.ops.custom import DOMAIN

if TYPE_CHECKING:
    import onnx

_HEADER = re.compile(r"^\s*([A-Za-z_]\w*)\s*\(")
_FOREIGN = re.compile(r"\b([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\.[A-Za-z_]\w*\s*[<(]")

_PIECES = re.compile(r'"(?:\\.|[^"\\])*"|#[^\n]*|[{}]')
_COMMENT = re.compile(r"#[^\n]*")


def parsed(text: str, opset: int) -> onnx.FunctionProto:
    """An ONNX function from `Name (x) => (y) { ... }`; ops of other domains are written `domain.Op`."""
    import onnx.parser

    if not _HEADER.match(text):
        raise ValueError("it does not begin with a name and inputs: Name (x) => (y) { ... }")
    if rest := _behind(text):
        raise ValueError(f"its text goes on behind the last brace: '{rest[:40]}'")
    foreign = sorted(set(_FOREIGN.findall(text)))
    imports = ", ".join([f'"": {opset}', *(f'"{domain}": 1' for domain in foreign)])
    try:
        return onnx.parser.parse_function(f'<domain: "{DOMAIN}", opset_import: [{imports}]> {text}')
    except onnx.parser.ParseError as error:
        raise ValueError(f"its text does not parse: {_said(str(error))}") from error


def _behind(text: str) -> str:
    """What stands behind the brace that closes the function: the parser leaves it unread."""
    depth = 0
    for piece in _PIECES.finditer(text):
        depth += {"{": 1, "}": -1}.get(piece[0], 0)
        if piece[0] == "}" and depth == 0:
            return _COMMENT.sub("", text[piece.end() :]).strip()
    return ""


def _said(text: str) -> str:
    """The parser's own words, without its position in the C++ source."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    kept = [line for line in lines if not line.startswith("[ParseError at") and "onnx/" not in line]
    return (kept or lines or [text])[-1]
