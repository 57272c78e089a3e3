"""What pydantic found wrong in a file of plain values  ->  a line for each fault: where, and what is wanted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from axtool.errors import nearest
from axtool.plain_yaml import Plain

MOST_FAULTS = 50  # who wrote more has another problem
MOST_LETTERS = 400  # of one


def faults_of(error: ValidationError, model: type[BaseModel], plain: Plain | None = None) -> list[str]:
    """The first `MOST_FAULTS` faults of a file that should be a `model`, each with its line where `plain` knows it."""
    faults = []
    found = error.errors(include_url=False)
    for item in found[:MOST_FAULTS]:
        line = f"line {plain.line(item['loc'])}: " if plain else ""
        text = f"{line}{_path(_written(item['loc'], model))}{_said(item, model)}"
        faults.append(text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]}…")
    return faults + ([f"… and {len(found) - MOST_FAULTS:,} more"] if len(found) > MOST_FAULTS else [])


def _path(place: Sequence[int | str]) -> str:
    """layers[2].match.op"""
    text = ""
    for part in place:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return f"{text}: " if text else ""


def _said(item: Mapping[str, Any], model: type[BaseModel]) -> str:
    kind, place, found = item["type"], item["loc"], item["input"]
    if kind == "extra_forbidden":
        return f"unknown key; {nearest(str(place[-1]), _keys_at(model, place[:-1]))}"
    if kind == "missing":
        return "missing"
    if kind == "literal_error":
        known = item["ctx"]["expected"]
        words = [word.strip("'") for word in known.replace(" or ", ", ").split(", ")]
        return f"want {known}, found {_short(found)}" + (f"; {_near(found, words)}" if _near(found, words) else "")
    if kind == "value_error":
        return str(item["msg"]).removeprefix("Value error, ")
    if kind == "union_tag_invalid":
        context = item["ctx"]
        key = context["discriminator"].strip("'")
        return f"want {key} to be one of {context['expected_tags']}, found '{context['tag']}'"
    if kind == "union_tag_not_found":
        return f"{item['ctx']['discriminator'].strip(chr(39))} is missing"
    if kind == "model_type":
        keys = ", ".join(_keys_at(model, place))
        return f"want a mapping with the keys {keys}, found {_short(found)}"
    said = str(item["msg"]).replace("Input should be", "want").replace("a valid string", "a text (in quotes)")
    return f"{said}, found {_short(found)}"


def _near(found: object, words: Sequence[str]) -> str:
    text = nearest(str(found), words)
    return text if text.startswith("did you mean") else ""


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _keys_at(model: type[BaseModel], place: Iterable[int | str]) -> tuple[str, ...]:
    """The keys of the mapping at a place of the file. Where it may be one of several, the place says its `kind`."""
    known = [model]
    for part in place:
        if isinstance(part, str):
            fields = {field.alias or name: field for name, field in known[0].model_fields.items()}
            tagged = [one for one in known if len(known) > 1 and part in _kinds(one)]
            known = tagged or (_models_in(fields[part].annotation) if part in fields else [])
            if not known:
                return ()
    return tuple(field.alias or name for name, field in known[0].model_fields.items())


def _written(place: Sequence[int | str], model: type[BaseModel]) -> list[int | str]:
    """The keys that are in the file: without the `kind` that says which of several mappings it is."""
    known, made = [model], list[int | str]()
    for part in place:
        if isinstance(part, str) and len(known) > 1 and any(part in _kinds(one) for one in known):
            known = [one for one in known if part in _kinds(one)]
            continue
        made.append(part)
        if isinstance(part, str):
            fields = {field.alias or name: field for name, field in known[0].model_fields.items()} if known else {}
            known = _models_in(fields[part].annotation) if part in fields else []
    return made


def _kinds(model: type[BaseModel]) -> tuple[Any, ...]:
    return get_args(model.model_fields["kind"].annotation) if "kind" in model.model_fields else ()


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for part in get_args(annotation) for found in _models_in(part)]
