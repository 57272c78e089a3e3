"""`axzoo run`: pictures through a model of the zoo, with the steps and the kernel of its config."""

from pathlib import Path
from typing import Annotated

import typer

from axtool.cli import options as o
from axtool.cli.console import Force, Json, Progress, Quiet, Verbose, emit, say, set_up
from axtool.cli.zoo_built import axm_of
from axtool.errors import UsageError
from axtool.legible import legible_values

Name = Annotated[str, typer.Argument(metavar="MODEL", help="A name of `axzoo list`, or your own .yaml or .py.")]
Axm = Annotated[
    Path | None,
    typer.Option("--axm", metavar="FILE.axm", help="A built file. Default: built once and kept in the cache."),
]
Target = Annotated[str | None, typer.Option("--target", "-t", help="Default: the config's first.")]
Kernel = Annotated[
    bool, typer.Option("--kernel/--no-kernel", help="The kernel of the config, or the tail in onnxruntime.")
]
Threads = Annotated[int, typer.Option("--threads", min=1, max=256, help="Of the simulated device.")]


def run_command(
    model: Name,
    inputs: Annotated[list[str], typer.Argument(metavar="INPUT...", help="Pictures, or folders of them.")],
    axm: Axm = None,
    target: Target = None,
    source: o.Source = None,
    kernel: Kernel = True,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE.png|FOLDER",
            help="Save the picture with what was found; a folder where there are several.",
        ),
    ] = None,
    threads: Threads = 1,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:  # fmt: skip
    """Run a model on pictures and print what it finds. Builds the model the first time.

    Times are measured here, of the simulated device; the device's time on the chip is modelled.

    \b
    Examples:
      axzoo run digits-v8det scene.png
      axzoo run digits-v8det pictures/ --out found/ --json
    """
    set_up(quiet=quiet, verbose=verbose)
    from axtool.config import write_whole
    from axtool.report.zoo_run import ran_document, ran_text
    from axtool.runtime.draw import draw
    from axtool.runtime.frame import modelled_ms
    from axtool.sim.engine import native_available
    from axtool.zoo.catalogue import find
    from axtool.zoo.loaded import load_entry, pictures_in

    entry = find(model)
    pictures = pictures_in(inputs)
    drawn = _drawn_to(out, pictures, force=force)
    with Progress(quiet=quiet, verbose=verbose, as_json=as_json).shown() as progress:
        path = axm_of(entry, axm, target, source, progress)
        loaded = load_entry(entry, path, kernel=kernel, threads=threads)
        if drawn and not loaded.model.artefact.task:
            raise UsageError(
                "the config does not say what the outputs mean", where=str(entry.path), hint="give it a task",
                code="nothing-to-draw",
            )  # fmt: skip
        progress.step("running")
        loaded.see(pictures[0])  # the first frame pays for what is loaded late; times are of a warm one
        rows = []
        for done, picture in enumerate(pictures, 1):
            seen = loaded.see(picture)
            to = drawn.get(picture)
            if to is not None and seen.result is not None:
                to.parent.mkdir(exist_ok=True)
                write_whole(to, draw(picture, seen.result, to.suffix, seen.labels), force=force)
            rows.append((picture, seen, to))
            progress.count(done, len(pictures))
    engine = "native" if native_available() else "reference"
    document = ran_document(loaded, path, engine, rows, modelled_ms(loaded.model.artefact))
    for to in drawn.values():
        say(f"wrote {to}", quiet=quiet)
    if as_json:
        emit(document)
    else:
        typer.echo(ran_text(legible_values(document)))


def _drawn_to(out: Path | None, pictures: list[Path], *, force: bool) -> dict[Path, Path]:
    """Where each picture is drawn to: a file for one, files of a folder for several. Refused before any work."""
    from axtool.config import refuse_overwrite

    if out is None:
        return {}
    if len(pictures) == 1 and not out.is_dir() and out.suffix:
        o.choice(out.suffix.lower(), (".png", ".jpg", ".jpeg", ".webp"), "--out")
        refuse_overwrite(out, force=force, inputs=pictures)
        return {pictures[0]: out}
    if out.suffix and not out.is_dir():
        raise UsageError(
            f"--out {out}: {len(pictures)} pictures do not go into one file", hint="name a folder", code="bad-option"
        )
    made = {picture: out / f"{picture.stem}.png" for picture in pictures}
    if len(set(made.values())) < len(made):
        raise UsageError(
            "two pictures of the same name would be drawn to one file", where=str(out),
            hint="run the folders one after another", code="bad-option",
        )  # fmt: skip
    for path in made.values() if out.is_dir() else ():
        refuse_overwrite(path, force=force, inputs=pictures)
    if not out.is_dir():
        refuse_overwrite(out, force=force)
    return made
