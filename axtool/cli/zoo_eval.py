"""`axzoo eval`: how right a model of the zoo is in float, in int8, and in int8 with its kernel."""

from pathlib import Path
from typing import Annotated

import typer

from axtool.cli import options as o
from axtool.cli.console import Json, Progress, Quiet, Verbose, emit, set_up
from axtool.cli.zoo_built import axm_of
from axtool.cli.zoo_run import Axm, Kernel, Name, Target, Threads
from axtool.legible import legible_values


def eval_command(
    model: Name,
    axm: Axm = None,
    target: Target = None,
    source: o.Source = None,
    kernel: Kernel = True,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="So many pictures, evenly spread. Default: all.")
    ] = None,
    threads: Threads = 1,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Measure the accuracy of a model: float, int8 with the tail in onnxruntime, int8 with the kernel.

    Against the labels of the config's pictures where it has some, else against the float model. Exit 1 where an int8
    figure is below what the config expects of all pictures. Builds the model the first time.

    \b
    Examples:
      axzoo eval digits-v8det
      axzoo eval ./my-model.yaml --axm my-model.axm --limit 50 --json
    """
    set_up(quiet=quiet, verbose=verbose)
    from axtool.report.zoo_eval import Evaluated, eval_document, eval_text
    from axtool.verify.accuracy import measure
    from axtool.verify.expected import compare
    from axtool.zoo.catalogue import find

    entry = find(model)
    rows: list[Evaluated] = []
    with Progress(quiet=quiet, verbose=verbose, as_json=as_json).shown() as progress:
        path = axm_of(entry, axm, target, source, progress)
        ways: list[tuple[str, str, Path | None, bool]] = []
        ways += [("float", "onnxruntime", None, False)] if entry.config.annotations else []
        ways += [("int8", "onnxruntime", path, False)]
        ways += [("int8", entry.config.kernel.kernel_name, path, True)] if kernel and entry.config.postamble else []
        for numbers, tail, file, by_kernel in ways:
            if by_kernel:
                progress.step("evaluating int8 with the kernel")
            elif file is None:
                progress.step("evaluating float")
            else:
                progress.step("evaluating int8")
            found = measure(
                entry, file, kernel=by_kernel, limit=limit, given=source, threads=threads, count=progress.count
            )
            judged = limit is None and numbers != "float"  # what is expected is of int8, and of all pictures
            expected = compare(entry.config.expected, found.figures) if judged else []
            rows.append(Evaluated(numbers, tail, found.pictures, found.figures, expected))
    document = eval_document(entry, path, rows, labelled=bool(entry.config.annotations), limit=limit)
    if as_json:
        emit(document)
    else:
        typer.echo(eval_text(legible_values(document)))
    raise typer.Exit(1 if document["status"] == "failed" else 0)
