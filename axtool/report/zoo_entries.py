"""Configs of the zoo  ->  JSON documents and text. Nothing is run or fetched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from axtool.report.prepared import effective, prepared_text
from axtool.runtime.postamble import Postamble
from axtool.zoo.catalogue import Entry
from axtool.zoo.kernels import kernel_file
from axtool.zoo.schema import UserSource
from axtool.zoo.user_file import forms_text

if TYPE_CHECKING:
    from axtool.zoo.check import Checked  # it reads models, which a list does not


def entry_document(entry: Entry) -> dict[str, Any]:
    """Everything that a config says, and where it stands."""
    config = entry.config
    kernel = kernel_file(config.kernel, entry.path.parent)
    return {
        "name": config.name,
        "task": entry.task,
        "title": config.title,
        "licence": config.licence,
        "licence_note": config.licence_note,
        "source": config.source.model_dump(mode="json"),
        "input_shapes": config.input_shapes,
        "preparation": config.input,
        "result": config.task,
        "postamble": {**config.postamble, "file": kernel and str(kernel)} if config.postamble else None,
        "calibration": [item.model_dump(mode="json") for item in config.calibration],
        "validation": [item.model_dump(mode="json") for item in config.validation],
        "annotations": config.annotations,
        "expected": [item.model_dump(mode="json") for item in config.expected],
        "targets": config.targets,
        "notes": config.notes,
        "config": entry.path.name,
    }


def entry_text(document: dict[str, Any]) -> str:
    """The licence first: it decides whether the model may be used at all."""
    source = document["source"]
    shapes = ", ".join(f"{name} {'x'.join(map(str, s))}" for name, s in document["input_shapes"].items())
    shapes = forms_text(UserSource.model_validate(source).inputs) if source["kind"] == "user" else shapes
    chosen = prepared_text(effective(document["preparation"] or None))
    lines = [
        f"{document['name']}: {document['title']}",
        f"  licence     {document['licence']}" + (f" ({document['licence_note']})" if document["licence_note"] else ""),
        f"  task        {document['task'] or '-'}",
        *_source_lines(source),
        f"  input       {shapes or 'as the file says'}; {chosen}",
        f"  calibration {'; '.join(_set(item) for item in document['calibration'])}",
        f"  validation  {'; '.join(_set(item) for item in document['validation']) or 'none'}",
        *([f"  labels      {document['annotations']}"] if document["annotations"] else []),
        f"  targets     {', '.join(document['targets'])}",
    ]
    lines += [f"  expected    {_figure(item)}" for item in document["expected"]]
    postamble = document["postamble"]
    if postamble is None:
        lines.append("  postamble   none: what follows the device runs in onnxruntime")
    else:
        params = {key: value for key, value in postamble.items() if key != "file"}
        lines.append(f"  postamble   {Postamble(**params)!r}")
        lines.append(f"  kernel      {postamble['file'] or 'not found: make its module importable'}")
    if document["notes"]:
        lines.append(f"  notes       {document['notes']}")
    return "\n".join(lines)


def checked_row(checked: Checked) -> dict[str, Any]:
    """A config of `axzoo check`."""
    return {
        "name": checked.name,
        "file": str(checked.file),
        "faults": [{"line": fault.line, "what": fault.what} for fault in checked.faults],
        "notes": list(checked.notes),
    }


def checked_lines(checked: Checked) -> list[str]:
    """The same for people: FILE:LINE: what, as compilers say it."""
    if not checked.faults:
        return ["; ".join([f"{checked.name}: whole", *checked.notes])]
    places = [f"{checked.file}:{fault.line}" if fault.line else str(checked.file) for fault in checked.faults]
    return [f"{place}: {fault.what}" for place, fault in zip(places, checked.faults, strict=True)]


def list_rows(entries: Sequence[Entry]) -> list[tuple[str, ...]]:
    """name, task, licence, source, title."""
    return [(e.config.name, e.task, e.config.licence, _short(e), e.config.title) for e in entries]


def _source_lines(source: dict[str, Any]) -> list[str]:
    if source["kind"] == "file":
        return [f"  source      file: {source['path']}"]
    if source["kind"] == "pypi":
        return [f"  source      pypi: {source['package']}=={source['version']}: {source['path']}"]
    wanted = UserSource.model_validate(source)
    return [
        f"  source      yours, as --source FILE: {wanted.get}",
        f"  its outputs {forms_text(wanted.outputs)}",
    ]


def _short(entry: Entry) -> str:
    source = entry.config.source
    if isinstance(source, UserSource):
        return "yours (--source)"
    return "bundled" if source.kind == "file" else f"{source.package}=={source.version}"


def _figure(item: dict[str, Any]) -> str:
    """What was measured, and what a build must reach."""
    known = [("float", "float_value"), ("int8", "int8"), ("int8 with the kernel", "int8_kernel")]
    measured = [f"{name} {item[key]:g}" for name, key in known if item[key] is not None]
    note = f" ({item['note']})" if item["note"] else ""
    return f"{item['metric']}{note} " + ", ".join([*measured, f"at least {item['minimum']:g}"])


def _set(item: dict[str, Any]) -> str:
    if item["kind"] == "file":
        return str(item["path"])
    if item["kind"] == "pypi":
        return f"{', '.join(item['paths'])} of {item['package']}=={item['version']}"
    return f"{item['count']} {item['generator']} (seed {item['seed']})"
