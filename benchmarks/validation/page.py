"""Sections  ->  docs/validation.md and its JSON twin. The same figures give the same text on every machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks.validation.chip import Constant, Section
from benchmarks.validation.rows import LeftOut, Row, Rule, median_error

SCHEMA = "axtool.validation/1"
LONG = 24  # rows from which a table is folded

HEAD = """<!-- Written by `make validation`. Change the model or the figures, then run it. -->

# Validation

What was published about a chip beside what axtool models for it. Every modelled figure comes from the road that
`axtool compile` and `axtool profile` take: an ONNX model, lowered, tiled, placed in memory, its commands timed. Nothing
here ran on hardware. A row *holds* where the error is within the tolerance beside it; a row without tolerance is for
orientation. *Kept back* are figures that nobody looked at when constants were chosen.

A constant of a target file is a *fact* (somebody states it), *natural* (the obvious value, with the reason beside
it) or *fitted* (chosen so that a published figure is met). At most one fitted constant is allowed for three figures
that the chip matches; figures that follow from shapes alone are not counted. What the fit is worth shows when each
figure in turn is left out of it: those errors stand under *left out of the fit*.
"""


def page(sections: Sequence[Section]) -> str:
    """The whole page."""
    return "\n".join([HEAD, summary(sections), *(section_text(section) for section in sections)])


def updated(text: str, section: Section) -> str:
    """The page with one chip's part and its line of the summary written anew. Raises ValueError where it has none."""
    title = f"## {section.title}\n"
    begin = text.find(f"\n{title}") + 1
    old = next((line for line in text.splitlines() if line.startswith(f"| [{section.title}](")), "")
    if not begin or not old:
        raise ValueError(f"the page has no part '{section.title}'; write it whole first")
    end = text.find("\n## ", begin)
    tail = "" if end < 0 else text[end:]
    new = summary([section]).splitlines()[-1]
    return text[:begin].replace(old, new) + section_text(section) + tail


def summary(sections: Sequence[Section]) -> str:
    """One line a chip family. The median is that of single figures with a tolerance in per cent, of which a constant
    could have changed each; where no figure has one, that of all, marked so.
    """
    head = (
        "chip", "asked", "hold", "of them by shape alone", "median error", "fitted", "figures matched",
        "left out: median error",
    )  # fmt: skip
    lines = []
    for s in sections:
        asked = [row for row in s.rows if row.holds is not None]
        held = sum(bool(row.holds) for row in asked) + sum(rule.holds for rule in s.rules)
        lines.append(
            (
                f"[{s.title}](#{anchor(s.title)})",
                str(len(asked) + len(s.rules)),
                str(held),
                str(sum(row.fixed for row in asked)),
                _median([row for row in asked if not (row.fixed or row.absolute)])
                or f"{_median([row for row in s.rows if not row.fixed])}, not asked",
                str(len(s.fitted)),
                str(s.matched),
                _median(s.left_out),
            )
        )
    return table(head, lines, left=(0,))


def _median(rows: Sequence[Row | LeftOut]) -> str:
    return percent(median_error(rows)) if rows else ""


def section_text(section: Section) -> str:
    """The part of the page that one module fills."""
    parts = [f"## {section.title}\n", section.about.strip() + "\n"]
    if section.rules:
        parts += [rules_table(section.rules)]
    for name in dict.fromkeys(row.set for row in section.rows):
        parts.append(set_text(name, [row for row in section.rows if row.set == name]))
    parts.append(constants_text(section))
    if section.left_out:
        parts += ["### Left out of the fit\n", left_out_table(section.left_out)]
    if section.wrong:
        parts += ["### Where the model is known to be wrong\n", "".join(f"- {text}\n" for text in section.wrong)]
    return "\n".join(parts)


def set_text(name: str, rows: Sequence[Row]) -> str:
    """One table of figures, folded where it is long."""
    head = ("figure", "unit", "published", "ours", "error", "tolerance", "verdict", "note")
    lines = [
        (
            row.name,
            row.unit,
            number(row.published),
            number(row.ours),
            error(row),
            tolerance(row),
            verdict(row),
            _note(row),
        )
        for row in rows
    ]
    text = table(head, lines, left=(0, 1, 6, 7))
    if len(rows) <= LONG:
        return f"### {name}\n\n{text}"
    asked = [row for row in rows if row.holds is not None]
    held = f"{sum(bool(row.holds) for row in asked)} of {len(asked)} hold, " if asked else ""
    words = f"{len(rows)} figures: {held}median error {percent(median_error(rows))}"
    return f"### {name}\n\n<details><summary>{words}</summary>\n\n{text}\n</details>\n"


def rules_table(rules: Sequence[Rule]) -> str:
    """What must hold of sets as a whole."""
    lines = [
        (rule.set, rule.what, _bound(rule.figure, rule.unit), f"{rule.sense} {_bound(rule.bound, rule.unit)}",
         "holds" if rule.holds else "**does not hold**")
        for rule in rules
    ]  # fmt: skip
    return table(("set", "what", "found", "asked", "verdict"), lines, left=(0, 1, 4))


def constants_text(section: Section) -> str:
    """What is fitted, what is natural, and how many facts there are."""
    share = "at most a third" if section.sparing else "**more than a third**"
    words = (
        f"{len(section.fitted)} fitted for {section.matched} figures matched: {share}. "
        f"{section.facts} facts and {len(section.natural)} natural values beside them."
    )
    parts = [f"### Constants\n\n{words}\n"]
    for name, constants in (("fitted", section.fitted), ("natural", section.natural)):
        if constants:
            parts.append(
                table((name, "value", "to what" if name == "fitted" else "why"), _constants(constants), left=(0, 2))
            )
    return "\n".join(parts)


def left_out_table(left_out: Sequence[LeftOut]) -> str:
    lines = [(x.name, x.unit, number(x.published), number(x.predicted), signed(x.error)) for x in left_out]
    return table(("figure", "unit", "published", "predicted without it", "error"), lines, left=(0, 1))


def table(head: Sequence[str], lines: Iterable[Sequence[str]], *, left: Sequence[int]) -> str:
    """A Markdown table; columns that are not `left` are flush right."""
    rule = "|".join("---" if at in left else "--:" for at in range(len(head)))
    rows = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return f"| {' | '.join(head)} |\n|{rule}|\n{rows}"


def number(value: float) -> str:
    """Whole numbers with thousands; others to four digits."""
    if float(value).is_integer() or abs(value) >= 10_000:
        return f"{round(value):,}"
    return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.1f}"


def percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def signed(value: float) -> str:
    """A signed fraction as per cent; what rounds to nothing has no sign."""
    text = f"{100 * value:+.1f}"
    return "0 %" if float(text) == 0 else f"{text} %"


def error(row: Row) -> str:
    return f"{row.error:+.1f} {_units(row)}" if row.absolute else signed(row.error)


def tolerance(row: Row) -> str:
    if row.tolerance is None:
        return ""
    if row.tolerance == 0:
        return "exact"
    return f"± {row.tolerance:g} {_units(row)}" if row.absolute else f"± {100 * row.tolerance:g} %"


def verdict(row: Row) -> str:
    """Whether a figure holds, in words."""
    return {True: "holds", False: "**does not hold**", None: "for orientation"}[row.holds]


def anchor(title: str) -> str:
    """The fragment that a Markdown page gives to a heading."""
    kept = "".join(c for c in title.lower() if c.isalnum() or c in " -_")
    return kept.replace(" ", "-")


def document(sections: Sequence[Section]) -> dict[str, Any]:
    """What `--json` prints; times of CPU are measured on this machine, everything else is modelled."""
    return {"schema": SCHEMA, "holds": all(s.holds for s in sections), "sections": [_section(s) for s in sections]}


def _section(s: Section) -> dict[str, Any]:
    return {
        "name": s.name,
        "title": s.title,
        "holds": s.holds,
        "figures_matched": s.matched,
        "fitted": [{"path": c.path, "value": c.value, "to": c.source} for c in s.fitted],
        "natural": [{"path": c.path, "value": c.value, "why": c.source} for c in s.natural],
        "rules": [
            {"set": r.set, "what": r.what, "figure": r.figure, "sense": r.sense, "bound": r.bound, "holds": r.holds}
            for r in s.rules
        ],
        "rows": [
            {
                "set": r.set, "name": r.name, "unit": r.unit, "published": r.published, "ours": r.ours,
                "error": r.error, "error_is": r.unit if r.absolute else "fraction", "tolerance": r.tolerance,
                "holds": r.holds, "kept_back": r.kept_back, "fixed": r.fixed, "note": r.note,
            }
            for r in s.rows
        ],
        "left_out": [
            {"name": x.name, "unit": x.unit, "published": x.published, "predicted": x.predicted, "error": x.error}
            for x in s.left_out
        ],
        "wrong": list(s.wrong),
        "cpu_s": round(s.seconds, 2),
    }  # fmt: skip


def _constants(constants: Sequence[Constant]) -> list[tuple[str, str, str]]:
    return [(f"`{c.path}`", c.value, c.source) for c in constants]


def _note(row: Row) -> str:
    return ", ".join(part for part in ("kept back" if row.kept_back else "", row.note) if part)


def _units(row: Row) -> str:
    return "points" if row.unit == "%" else row.unit


def _bound(value: float, unit: str) -> str:
    return percent(value) if unit == "%" else f"{number(value)} {unit}".rstrip()
