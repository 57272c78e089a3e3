"""A config  ->  the same with every value that it leaves open, and which those are; and YAML that can be read again."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from axtool.artefact.manifest import TaskEntry
from axtool.runtime.postamble import Postamble
from axtool.zoo.catalogue import Entry
from axtool.zoo.kernels import kernel_file

WIDTH = 110
OF_A_BUILD = 3  # the first parameters of a kernel: its tensors and the model's size, which no config says


@dataclass(frozen=True)
class Resolved:
    """`values` as a config has them; `defaults` are the keys that the config leaves out, `task.iou` inside another."""

    values: Mapping[str, Any]
    defaults: tuple[str, ...]


def resolved(entry: Entry) -> Resolved:
    """Everything that holds for an entry. The input is there as `preprocess` where the config says it so."""
    config = entry.config
    values = config.model_dump(mode="json")
    defaults = [key for key in values if key not in config.model_fields_set]
    inner: dict[str, Mapping[str, Any]] = {}
    if config.preprocess:
        del values["input"]
        defaults = [key for key in defaults if key != "input"]
    else:
        preparation = config.preparation
        plain = {**preparation.to_dict(), "scale": preparation.factor}
        inner["input"] = {key: value for key, value in plain.items() if value is not None}
    if config.task:
        inner["task"] = TaskEntry.model_validate(config.task).model_dump(mode="json", exclude_none=True)
    if config.postamble:
        inner["postamble"] = {**config.postamble, **_of_kernel(config.kernel)}
    for key, known in inner.items():
        given = getattr(config, key)
        values[key] = {**given, **{name: value for name, value in known.items() if name not in given}}
        defaults += [f"{key}.{name}" for name in values[key] if name not in given]
    return Resolved(values, tuple(defaults))


def _of_kernel(postamble: Postamble) -> dict[str, Any]:
    """The parameters of a built-in kernel that have a value by default; a kernel of one's own is not imported."""
    if ":" in postamble.kernel_name:
        return {}
    found = {}
    for name, one in list(inspect.signature(postamble.kernel_class()).parameters.items())[OF_A_BUILD:]:
        default = list(one.default) if isinstance(one.default, tuple) else one.default
        if isinstance(default, (bool, int, float, str, list)) and name != "name":
            found[name] = default
    return found


def resolved_yaml(entry: Entry, shown: Resolved) -> str:
    """A config that means the same, with the file that it comes from; what that leaves out is marked."""
    kernel = kernel_file(entry.config.kernel, entry.path.parent)
    lines = [f"# {entry.path}", *([f"# kernel: {kernel}"] if kernel else []), "# `# default`: not said there"]
    for key, value in shown.values.items():
        if isinstance(value, Mapping) and value and key not in shown.defaults:
            lines.append(f"{key}:")
            for name, item in value.items():
                lines += _block({name: item}, "  ", marked=f"{key}.{name}" in shown.defaults)
        else:
            lines += _block({key: value}, "", marked=key in shown.defaults)
    return "\n".join(lines)


def _block(item: Mapping[str, Any], indent: str, *, marked: bool) -> Sequence[str]:
    """The lines of one key; a mark stands beside a line, and in front of several."""
    ((key, value),) = item.items()
    nested = isinstance(value, (list, Mapping)) and bool(value)
    shown: Any = dict(item) if nested else value
    text = yaml.safe_dump(
        shown, sort_keys=False, default_flow_style=None, allow_unicode=True, width=WIDTH if nested else 10**9
    )
    text = text.removesuffix("\n").removesuffix("\n...")
    lines = [f"{indent}{line}" for line in (text if nested else f"{key}: {text}").splitlines()]
    if not marked:
        return lines
    return [f"{lines[0]}  # default"] if len(lines) == 1 else [f"{indent}# default", *lines]
