"""`x=feed.npy`, `feeds.npz`, `photo.jpg`  ->  one feed for each input of the model, to run it once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from axtool.errors import UsageError, nearest, plural
from axtool.inputs.prepare import Preparation
from axtool.inputs.preprocess import Preprocess, load_preprocess
from axtool.inputs.samples import Samples, open_samples
from axtool.inputs.sources import Feeds
from axtool.inputs.spec import InputSpec


def read_feeds(
    items: Sequence[str],
    specs: Sequence[InputSpec],
    preparation: Preparation | None = None,
    preprocess: Preprocess | str | None = None,
) -> Feeds:
    """One array for every input, from `name=file` or files that name their inputs themselves.

    Raises UsageError for unknown or missing inputs, for arrays that no input takes, for several samples at once, and
    as `open_samples` does.
    """
    if isinstance(preprocess, str):
        preprocess = load_preprocess(preprocess)
    feeds: Feeds = {}
    open_specs = list(specs)
    named = [(item, *_split(item, specs)) for item in items]
    for item, spec, path in sorted(named, key=lambda entry: entry[1] is None):  # `name=file` first: the rest is left
        taken = [spec] if spec is not None else _named_in(path, open_specs)
        if not taken or (spec is not None and spec.name in feeds):
            raise UsageError(
                "no input is left for it",
                where=item,
                code="wrong-input-count",
                hint="the inputs are " + ", ".join(s.name for s in specs),
            )
        samples = open_samples([path], taken, preparation, preprocess)
        if len(samples) != 1:
            raise UsageError(
                f"holds {plural(len(samples), 'sample')}, a run takes one",
                where=item,
                code="wrong-count",
                hint="save one sample, or use a command that takes data sets",
            )
        _refuse_ignored(samples, specs, item)
        feeds.update(next(iter(samples)))
        open_specs = [s for s in open_specs if s.name not in feeds]
    if open_specs:
        missing = ", ".join(str(s) for s in open_specs)
        raise UsageError(
            f"nothing is given for {missing}", code="missing-input", hint=f"give --input {open_specs[0].name}=feed.npy"
        )
    return {spec.name: feeds[spec.name] for spec in specs}


def _refuse_ignored(samples: Samples, specs: Sequence[InputSpec], item: str) -> None:
    """Raise UsageError for arrays that nothing would read: in a run each was meant to be fed."""
    ignored = next((notice for notice in samples.notices if notice.code == "ignored-arrays"), None)
    if ignored is not None:
        raise UsageError(
            ignored.what.removesuffix(": ignored"),
            where=item,
            code="wrong-input-name",
            hint=f"the inputs are {', '.join(s.name for s in specs)}; a default value that was compiled in cannot be "
            "fed: run the .onnx with --engine float",
        )


def _split(item: str, specs: Sequence[InputSpec]) -> tuple[InputSpec | None, str]:
    """(input, file) of `name=file`; input names may hold '=' and file names may too."""
    for spec in sorted(specs, key=lambda spec: -len(spec.name)):
        if item.startswith(f"{spec.name}="):
            return spec, item[len(spec.name) + 1 :]
    if "=" in item and not Path(item).exists():
        name = item.split("=")[0]
        names = [spec.name for spec in specs]
        raise UsageError(f"there is no input '{name}'", hint=nearest(name, names), code="wrong-input-name")
    return None, item


def _named_in(path: str, specs: list[InputSpec]) -> list[InputSpec]:
    """The inputs that a file without a name can feed: those its members name, else all that are left."""
    if path.lower().endswith(".npz") and len(specs) > 1:
        from axtool.inputs.arrays import open_arrays

        members = open_arrays(Path(path))
        return [spec for spec in specs if spec.name in members] or specs
    return specs
