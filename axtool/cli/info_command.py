"""`axtool info`: what a file holds, compiled or not."""

from pathlib import Path
from typing import Annotated

import typer

from axtool.cli import options as o
from axtool.cli.console import Json, Quiet, Verbose, emit, set_up
from axtool.errors import UsageError
from axtool.legible import legible_values


def info_command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="An .onnx or .axm file.")],
    support: Annotated[bool, typer.Option("--support", help="Why each host node is not on the device.")] = False,
    layers: Annotated[bool, typer.Option("--layers", help="The device layers (.axm).")] = False,
    tensors: Annotated[bool, typer.Option("--tensors", help="Format of each tensor (.axm).")] = False,
    memory: Annotated[bool, typer.Option("--memory", help="The memory plan (.axm).")] = False,
    target: o.Target = "qc-u-1d7-16mb",
    input_shape: o.InputShape = None,
    dim: o.Dim = None,
    custom_ops: o.CustomOps = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Describe a model: inputs and outputs, ops, the split with reasons, formats, memory.

    Of an .axm also the built-in kernels that fit its tail by shape, each as the Postamble to paste.

    \b
    Examples:
      axtool info model.onnx --support
      axtool info model.axm --tensors --memory
    """
    set_up(quiet=quiet, verbose=verbose)
    from axtool.report.inspect import inspect
    from axtool.report.inspect_text import info_text
    from axtool.target_file import load_target

    document = inspect(model, load_target(target), o.shapes(input_shape), o.dims(dim))
    if document["kind"] == "onnx" and (layers or tensors or memory):
        hint = f"`axtool profile {model}` shows the layers, or give the .axm that `axtool compile` makes"
        what = "not compiled: layers, tensors and memory are what the compiler decides"
        raise UsageError(what, where=str(model), hint=hint, code="not-axm")
    if as_json:
        emit(document)
    else:
        typer.echo(info_text(legible_values(document), support=support, layers=layers, tensors=tensors, memory=memory))
