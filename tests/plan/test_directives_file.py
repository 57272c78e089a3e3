"""Directives files: read as they are meant, every fault told with its line and path."""

from __future__ import annotations

from pathlib import Path

import pytest

from axtool.errors import Exit, UsageError
from axtool.plan.build_directives import Directive
from axtool.plan.directives_file import directives_from_dict, directives_to_dict, load_directives

HEAD = "schema: axtool.directives/1\ndirectives:\n"


def written(tmp_path: Path, text: str, head: str = HEAD) -> Path:
    path = tmp_path / "d.yaml"
    path.write_text(head + text)
    return path


def faults(tmp_path: Path, text: str, head: str = HEAD) -> str:
    with pytest.raises(UsageError) as caught:
        load_directives(written(tmp_path, text, head))
    assert caught.value.exit == Exit.USAGE
    return "\n".join((str(caught.value), *caught.value.details))


def test_every_key_is_read(tmp_path: Path):
    path = written(
        tmp_path,
        """
  - layers: conv_*
    tile: {rows: 8, columns: 40, channels: 16}
    prefetch: false
    buffering: double
    residency: ext
""",
    )
    assert load_directives(path) == (Directive("conv_*", "ext", (8, 40, 16), 2, False),)


def test_what_a_tile_leaves_out_is_all_that_there_is(tmp_path: Path):
    path = written(tmp_path, "  - {layers: conv_0, tile: {channels: 16}}\n")
    assert load_directives(path) == (Directive("conv_0", tile=(None, None, 16)),)


def test_a_list_of_patterns_is_one_directive_each_in_order(tmp_path: Path):
    path = written(tmp_path, "  - {layers: [b, a], buffering: single}\n  - {layers: a, prefetch: true}\n")
    assert load_directives(path) == (
        Directive("b", buffers=1),
        Directive("a", buffers=1),
        Directive("a", prefetch=True),
    )


def test_what_is_stored_reads_as_the_same_directives(tmp_path: Path):
    path = written(tmp_path, "  - {layers: a, tile: {rows: 2}}\n  - {layers: b, residency: ocm, prefetch: false}\n")
    directives = load_directives(path)
    assert directives_from_dict(directives_to_dict(directives)) == directives


def test_every_fault_is_listed_with_its_line_and_path(tmp_path: Path):
    text = faults(
        tmp_path,
        """  - layers: a
    tile: {rows: 0, colums: 3}
    residency: dram
  - prefetch: 1
""",
    )
    assert "4 faults" in text or "5 faults" in text
    assert "line 4: directives[0].tile.rows: want greater than or equal to 1, found 0" in text
    assert "line 4: directives[0].tile.colums: unknown key; did you mean columns?" in text
    assert "line 5: directives[0].residency: want 'ocm' or 'ext', found 'dram'" in text
    assert "directives[1].layers: missing" in text
    assert "line 6: directives[1].prefetch: want a valid boolean, found 1" in text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("  - {layers: a}\n", "says nothing: want tile, prefetch, buffering or residency"),
        ("  - {layers: a, tile: {}}\n", "want rows, columns, channels, or some of them"),
        ("  - {layers: a, tile: [8, 8, 16]}\n", "tile: want a mapping with the keys rows, columns, channels"),
        ("  []\n", "directives: "),
        ("  - {layers: [], prefetch: true}\n", "directives[0].layers"),
        ("  - {layers: a, buffering: triple}\n", "want 'single' or 'double', found 'triple'"),
    ],
)
def test_a_directive_that_means_nothing_is_a_fault(tmp_path: Path, text: str, said: str):
    assert said in faults(tmp_path, text)


def test_a_file_without_schema_says_which_is_wanted(tmp_path: Path):
    text = faults(tmp_path, "  - {layers: a, prefetch: true}\n", head="directives:\n")
    assert "schema: missing; want axtool.directives/1" in text


def test_the_example_of_the_documentation_is_a_file_of_directives(tmp_path: Path):
    page = (Path(__file__).resolve().parents[2] / "docs" / "planning.md").read_text()
    example = page.split("```yaml\n")[1].split("```")[0]
    assert len(load_directives(written(tmp_path, example, head=""))) == 4
