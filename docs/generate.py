"""The code  ->  the pages of docs/ that only repeat it: commands, schemas, supported ops, error codes.

    python docs/generate.py

A test compares the pages with what this makes, so that they cannot drift.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
NOTE = "<!-- Written by docs/generate.py. Change the code, then run it. -->\n"
WIDTH = 100


def pages() -> dict[str, str]:
    """Text by path below docs/."""
    return {
        "cli.md": cli_page(),
        "supported-ops.md": ops_page(),
        "errors.md": errors_page(),
        "operators.md": operators_page(),
        "kernels.md": kernels_page(),
        "models.md": models_page(),
        **{f"schemas/{name}.json": text for name, text in schema_pages().items()},
    }


def cli_page() -> str:
    """The help of both programs and of every command."""
    import typer.main

    from axtool.cli import main, zoo

    parts = [NOTE, "# Commands\n", _exit_codes()]
    for app, program in ((main.app, "axtool"), (zoo.app, "axzoo")):
        group: Any = typer.main.get_command(app)
        parts.append(f"## {program}\n\n{_help(group, program)}")
        parts += [f"### {program} {name}\n\n{_help(c, f'{program} {name}')}" for name, c in group.commands.items()]
    return "\n".join(parts)


def _help(command: Any, path: str) -> str:
    # A context that is told its width, so that the page is the same in every terminal.
    names = ["-h", "--help"]
    context = command.context_class(
        command, info_name=path, terminal_width=WIDTH, max_content_width=WIDTH, help_option_names=names
    )
    return f"```text\n{command.get_help(context).rstrip()}\n```\n"


def _exit_codes() -> str:
    from axtool.errors import Exit

    words = {
        "OK": "done", "CHECK_FAILED": "the check said no: verify out of tolerance, a limit exceeded",
        "USAGE": "usage or bad input", "UNSUPPORTED": "a valid model that axtool cannot compile",
        "ENVIRONMENT": "the machine: a missing package, no device, a full disk", "NUMERICS": "numbers refused",
        "DOES_NOT_FIT": "does not fit the chip", "INTERNAL": "a bug in axtool", "INTERRUPTED": "interrupted",
        "TERMINATED": "ended by SIGTERM or SIGHUP",
    }  # fmt: skip
    rows = "".join(f"| {code.value} | {words[code.name]} |\n" for code in Exit)
    return (
        "The result of a command goes to stdout, everything else to stderr. `--json` prints one document, also on\n"
        "failure; its schemas are in [schemas/](schemas), its error codes in [errors.md](errors.md).\n\n"
        f"| exit code | |\n|---|---|\n{rows}"
    )


def ops_page() -> str:
    """The limits of every op on the default chip."""
    from axtool.ops.limits import manual
    from axtool.ops.wide import wide_rule
    from axtool.options import Options
    from axtool.target_file import load_target

    target = load_target(Options().target)
    parts = [
        NOTE,
        f"# Ops that run on the device\n\nThe rules are those of `{target.name}`; `axtool info MODEL --support` judges "
        "a model by them. An op that is\nnot listed, or that breaks a rule, runs on the host.\n",
    ]
    for row in manual(target):
        rules = "".join(_rule(rule, advice) for rule, advice in zip(row.rules, row.advice, strict=True))
        rules += _rule(wide_rule(row.op), "") if row.op else ""
        parts.append(f"## {row.op or 'Every op'}\n\n{rules}")
    return "\n".join([*parts, _choices_page()])


def _choices_page() -> str:
    """The rules that hold only where a target names them, and the targets that do."""
    from axtool.ops.limits import choices
    from axtool.target_file import list_targets, load_target

    targets = [load_target(name) for name in list_targets()]
    parts = [
        "## Rules that a target may choose\n\nThey hold where `limits.rules` of a target file has their name, beyond "
        "the rules above. `limits.ops` lists the\nops that a target takes, where those are not all.\n"
    ]
    parts += [f"`{target.name}` takes {', '.join(target.ops)}.\n" for target in targets if target.ops]
    parts.append("| rule | ops | what it asks | instead | targets |\n|---|---|---|---|---|")
    for name, chosen in choices().items():
        users = [target for target in targets if name in target.rules]
        rule, advice = chosen.limit.rule(users[0] if users else targets[0]), chosen.limit.advice
        names = ", ".join(f"`{target.name}`" for target in users)
        parts.append(f"| `{name}` | {', '.join(chosen.ops)} | {_line(rule)} | {_line(advice)} | {names} |")
    return "\n".join(parts) + "\n"


def _rule(rule: str, advice: str) -> str:
    return f"- {_line(rule)}" + (f" *{_line(advice)}*" if advice else "") + "\n"


def _line(text: str) -> str:
    return " ".join(text.split())


def errors_page() -> str:
    """The codes that error documents carry, with the exit code that each ends in."""
    rows = "".join(f"| `{code}` | {', '.join(map(str, exits))} |\n" for code, exits in sorted(codes().items()))
    return (
        f"{NOTE}\n# Error codes\n\nThe `error.code` of a failed command. The words are stable, the messages beside "
        f"them are not.\n\n| code | exit code |\n|---|---|\n{rows}"
    )


def codes() -> dict[str, list[int]]:
    """Every code that the source gives to an error, and the exit codes of the classes it is given to."""
    from axtool import errors

    classes = {name: c for name, c in vars(errors).items() if inspect.isclass(c) and issubclass(c, errors.AxError)}
    found: dict[str, set[int]] = {}
    for name, code in _raised(classes):
        fixed = {  # given out by the door
            "interrupted": errors.Exit.INTERRUPTED, "terminated": errors.Exit.TERMINATED,
            "internal": errors.Exit.INTERNAL,
        }  # fmt: skip
        found.setdefault(code, set()).add(int(fixed.get(code, classes[name].exit)))
    return {code: sorted(exits) for code, exits in found.items()}


def _raised(classes: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / "axtool").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id not in classes:
                continue
            given = [keyword.value for keyword in node.keywords if keyword.arg == "code"]
            literals = [leaf.value for value in given for leaf in _leaves(value)]
            for code in literals or ([] if given else [classes[node.func.id].code]):
                yield node.func.id, str(code)


def _leaves(value: ast.expr) -> list[ast.Constant]:
    """The texts that an expression may be: itself, or either side of an `if`."""
    if isinstance(value, ast.IfExp):
        return _leaves(value.body) + _leaves(value.orelse)
    return [value] if isinstance(value, ast.Constant) and value.value else []


def operators_page() -> str:
    """Every operator of pipelines: its name, its other names, its signature and what it does."""
    from axtool.runtime import op

    spellings: dict[type, list[str]] = {}
    for name in op.__all__:
        value = getattr(op, name)
        if isinstance(value, type) and issubclass(value, op.Operator) and value not in (op.Operator, op.LoadedSeq):
            spellings.setdefault(value, []).append(name)
    parts = [
        NOTE,
        "# Operators of pipelines\n\nEach is a class of `axtool.runtime.op` and has a name in snake case beside it; "
        "[runtime.md](runtime.md) shows how they\nmake a pipeline. Every operator also takes `name=`.\n",
    ]
    groups = {cls: _group(cls) for cls in spellings}
    for title in OPERATOR_GROUPS:
        members = sorted((cls for cls, group in groups.items() if group == title), key=lambda cls: cls.__name__)
        parts.append(f"## {title}\n")
        parts += [_operator(cls, spellings[cls]) for cls in members]
    return "\n".join(parts)


OPERATOR_GROUPS: Mapping[str, tuple[str, ...]] = {  # modules of axtool.runtime.op by what their operators are about
    "Pictures": ("transforms", "prepare", "regions"),
    "Tensors": ("tensors",),
    "Models": ("device_ops", "onnx_model"),
    "Decoding": ("decode", "decode_maps", "decode_priors", "decode_sets"),
    "Suppression, masks, the way back": ("postprocess",),
    "Results": ("ax_results",),
    "Sequences and branches": ("combinators", "for_each"),
    "Looking on": ("observe",),
}


def _group(cls: type) -> str:
    module = cls.__module__.rpartition(".")[2]
    for title, modules in OPERATOR_GROUPS.items():
        if module in modules:
            return title
    raise ValueError(f"{cls.__name__}: its module {module} is in none of OPERATOR_GROUPS")


def _operator(cls: type, names: list[str]) -> str:
    given = [p.replace(annotation=p.empty) for k, p in inspect.signature(cls).parameters.items() if k != "name"]
    shown = ", ".join(map(str, given)).replace("<class 'numpy.float32'>", "np.float32").replace("_lanes", "lanes")
    shown = re.sub(r"<(?:class '(\w+)'|(\w+\.\w+): [^>]*)>", r"\1\2", shown)  # int, TensorLayout.CHW
    also = ", ".join(f"`{name}`" for name in names if name != cls.__name__)
    text = inspect.cleandoc(cls.__doc__ or "")
    return f"### {cls.__name__}({shown})\n\n{also + chr(10) * 2 if also else ''}{text}\n{_methods(cls)}"


def _methods(cls: type) -> str:
    """What a sequence can be asked for."""
    rows = []
    for name in ("optimized", "batch", "stream", "save_axe", "copy") if cls.__name__ == "Seq" else ():
        signature = inspect.signature(getattr(cls, name))
        given = [p.replace(annotation=p.empty) for key, p in signature.parameters.items() if key != "self"]
        shown = signature.replace(parameters=given, return_annotation=signature.empty)
        rows.append(f"\n`.{name}{shown}`\n\n{inspect.cleandoc(getattr(cls, name).__doc__ or '')}\n")
    return "".join(rows)


def kernels_page() -> str:
    """Every built-in postamble kernel: its parameters and what it covers."""
    from axtool.runtime import mega

    parts = [
        NOTE,
        "# Built-in postamble kernels\n\nClasses of `axtool.runtime.mega`, named in `Postamble(fused_kernel=...)` with "
        "the parameters below;\n[postambles.md](postambles.md) says which to choose.\n",
    ]
    for cls in (getattr(mega, name) for name in mega.__all__):
        given = list(inspect.signature(cls).parameters.values())[3:]  # behind output_infos, model_width, model_height
        shown = ", ".join(str(p.replace(annotation=p.empty)) for p in given if p.name != "name")
        text = inspect.cleandoc(cls.__doc__ or "")
        parts.append(f"## {cls.__name__}({shown})\n\n```text\n{text}\n```\n")
    return "\n".join(parts)


def models_page() -> str:
    """Every model of the zoo: its licence, its accuracy as the config has it, and a picture of what it finds."""
    from axtool.zoo.catalogue import entries

    rows, parts = [], []
    for entry in sorted(entries(), key=lambda entry: (entry.task, entry.config.name)):
        config = entry.config
        figures = [_figures(config, key) for key in ("float_value", "int8", "int8_kernel")]
        metrics = "<br>".join(METRICS[item.metric] for item in config.expected) or "-"
        kernel = config.kernel.kernel_name or "-"
        cells = (config.licence, f"[{config.name}](#{config.name})", entry.task, _origin(config), metrics, *figures)
        rows.append(f"| {' | '.join(cells)} | `{kernel}` |\n")
        note = f" ({config.licence_note})" if config.licence_note else ""
        text = f"## {config.name}\n\n{_sentence(config.title)} Licence: {config.licence}{note}.\n"
        picture = f"pictures/{config.name}.webp"
        if (ROOT / "docs" / picture).is_file():
            text += f"\n![What {config.name} finds]({picture})\n"
        parts.append(text)
    head = (
        "# Models of the zoo\n\nThe licence comes first: it decides whether a model may be used at all. Accuracy is "
        "measured here on the\nsimulated device, for the first target of each config: in int8 with the tail in "
        "onnxruntime, and with the kernel that\nreplaces the tail. `axzoo eval NAME` measures it again; how, says "
        "[zoo.md](zoo.md).\n\n"
        "| licence | model | task | source | figure | float | int8, onnxruntime tail | int8, kernel | kernel |\n"
        "|---|---|---|---|---|---|---|---|---|\n"
    )
    tail = (
        "\nA dash under float: there are no labels, and the float model is what int8 is held against. The pictures "
        "show int8 with\nthe kernel; `make pictures` draws them again. Digits are scenes of our own, text and "
        "characters are made, the two\nportraits are in the public domain (Eileen Collins, NASA, from scikit-image; "
        "Grace Hopper, US Navy, from Matplotlib).\n\n"
    )
    return NOTE + head + "".join(rows) + tail + "\n".join(parts)


METRICS = {
    "map50": "mAP50", "map75": "mAP75", "keypoint_pck": "keypoint PCK 10 %", "mask_iou": "mask IoU",
    "found_share": "objects found again", "top1_agreement": "same class", "sqnr_db": "SQNR, dB",
    "pixel_agreement": "same label of a pixel", "mean_iou": "mean IoU",
}  # fmt: skip


def _figures(config: Any, key: str) -> str:
    values = [getattr(item, key) for item in config.expected]
    shown = ["-" if v is None else f"{v:.1f}" if m.metric == "sqnr_db" else f"{v:.3f}" for v, m in
             zip(values, config.expected, strict=True)]  # fmt: skip
    return "<br>".join(shown) or "-"


def _origin(config: Any) -> str:
    source = config.source
    return {"file": "bundled", "user": "your file"}.get(source.kind) or f"{source.package} {source.version}"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."


def schema_pages() -> dict[str, str]:
    """JSON Schema by command."""
    from axtool.report.schemas import SCHEMAS

    made = {}
    for name, model in SCHEMAS.items():
        schema = {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$id": f"axtool.{name}/1",
            **model.model_json_schema(by_alias=True),
        }
        made[name] = json.dumps(schema, indent=2, sort_keys=True) + "\n"
    return made


def main() -> None:
    """Write every page."""
    for name, text in pages().items():
        path = ROOT / "docs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
