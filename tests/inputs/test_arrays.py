import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axtool.errors import UsageError
from axtool.inputs.arrays import open_arrays, read_arrays, save_arrays

VALUES = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array([1, 2], np.int64)}


def same(left, right):
    assert list(left) == list(right)
    for name in left:
        np.testing.assert_array_equal(left[name], right[name])


@pytest.mark.parametrize("name", ["plain", "scores:0", "a/b", "naïve", "CON ", ".hidden", "x" * 250, "output_names"])
def test_names_of_any_kind_survive_a_file(tmp_path, name):
    arrays = {name: VALUES["a"], "b": VALUES["b"]}
    save_arrays(tmp_path / "o.npz", arrays)
    same(read_arrays(tmp_path / "o.npz", "output"), arrays)


def test_strings_are_refused_and_nothing_is_written(tmp_path):
    with pytest.raises(UsageError, match="strings") as caught:
        save_arrays(tmp_path / "o.npz", {"a": np.array(["x", "y"], object)})
    assert caught.value.code == "string-output"
    assert list(tmp_path.iterdir()) == []


def test_plain_names_become_members_and_others_are_listed(tmp_path):
    save_arrays(tmp_path / "plain.npz", VALUES)
    save_arrays(tmp_path / "listed.npz", {"a/0": VALUES["a"]})
    assert np.load(tmp_path / "plain.npz").files == ["a", "b"]
    assert np.load(tmp_path / "listed.npz").files == ["output_names", "output_0"]


def test_the_asked_role_is_read_where_a_file_has_both(tmp_path):
    np.savez(tmp_path / "f.npz", input_names=["x"], input_0=[1.0], output_names=["y/0"], output_0=[2.0])
    assert list(read_arrays(tmp_path / "f.npz", "input")) == ["x"]
    assert list(read_arrays(tmp_path / "f.npz", "output")) == ["y/0"]


def test_a_plain_member_called_input_0_is_itself(tmp_path):
    save_arrays(tmp_path / "f.npz", {"input_0": VALUES["a"]})
    assert list(read_arrays(tmp_path / "f.npz")) == ["input_0"]


def test_a_list_of_names_without_its_arrays_is_refused(tmp_path):
    np.savez(tmp_path / "f.npz", input_names=["x", "y"], input_0=[1.0])
    with pytest.raises(UsageError, match="input_1 missing"):
        read_arrays(tmp_path / "f.npz")


def test_the_same_arrays_give_the_same_bytes(tmp_path):
    for name in ("1.npz", "2.npz"):
        save_arrays(tmp_path / name, VALUES)
    assert (tmp_path / "1.npz").read_bytes() == (tmp_path / "2.npz").read_bytes()


def test_an_existing_file_needs_force(tmp_path):
    save_arrays(tmp_path / "o.npz", VALUES)
    with pytest.raises(UsageError, match="already exists"):
        save_arrays(tmp_path / "o.npz", {})
    same(read_arrays(tmp_path / "o.npz"), VALUES)
    save_arrays(tmp_path / "o.npz", {"b": VALUES["b"]}, force=True)
    assert list(read_arrays(tmp_path / "o.npz")) == ["b"]


def test_a_failed_write_leaves_nothing_behind(tmp_path):
    with pytest.raises(UsageError, match="does not exist"):
        save_arrays(tmp_path / "no" / "o.npz", VALUES)
    assert list(tmp_path.iterdir()) == []


@settings(max_examples=40, deadline=None)
@given(
    st.booleans(), st.sampled_from("CF"), st.sampled_from(["f2", "f4", "f8", "i8", "u1", ">f4", "?"]),
    st.lists(st.integers(0, 4), min_size=1, max_size=3), st.data(),
)  # fmt: skip
def test_rows_of_any_file_are_those_of_numpy(tmp_path_factory, compressed, order, dtype, shape, data):
    path = tmp_path_factory.mktemp("rows") / "f.npz"
    array = np.asarray(np.random.default_rng(0).normal(0, 50, shape).astype(dtype), order=order)
    (np.savez_compressed if compressed else np.savez)(path, other=np.ones(3), x=array)
    wanted = data.draw(st.lists(st.integers(0, shape[0] - 1), unique=True).map(sorted)) if shape[0] else []
    rows = list(open_arrays(path)["x"].rows(wanted))
    assert len(rows) == len(wanted)
    for index, row in zip(wanted, rows, strict=True):
        np.testing.assert_array_equal(row, array[index])


def test_a_stored_member_is_mapped_not_read(tmp_path):
    np.savez(tmp_path / "f.npz", x=VALUES["a"])
    assert isinstance(open_arrays(tmp_path / "f.npz")["x"].load(), np.memmap)


def test_a_scalar_is_read(tmp_path):
    np.savez(tmp_path / "f.npz", x=np.float32(3))
    assert read_arrays(tmp_path / "f.npz")["x"] == 3


def test_pickled_objects_are_refused(tmp_path):
    np.save(tmp_path / "o.npy", np.array([{}, []], object), allow_pickle=True)
    np.savez(tmp_path / "o.npz", x=np.array([{}, []], object))
    for name in ("o.npy", "o.npz"):
        with pytest.raises(UsageError, match="pickled"):
            open_arrays(tmp_path / name)


@pytest.mark.parametrize("suffix", ["npz", "npy"])
@pytest.mark.parametrize("keep", [0, 3, 100, 200, -1])
def test_a_file_that_is_cut_short_is_not_readable(tmp_path, suffix, keep):
    path = tmp_path / f"f.{suffix}"
    (np.savez if suffix == "npz" else np.save)(path, np.arange(100.0))
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(UsageError, match=f"not a readable {suffix}|not a readable npy") as caught:
        read_arrays(path)
    assert caught.value.exit == 2


@settings(max_examples=30, deadline=None)
@given(st.binary(max_size=300), st.sampled_from(["npz", "npy"]), st.booleans())
def test_junk_is_refused_without_a_traceback(tmp_path_factory, junk, suffix, zipped):
    path = tmp_path_factory.mktemp("junk") / f"f.{suffix}"
    path.write_bytes(junk)
    if zipped:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("x.npy", junk)
    with pytest.raises(UsageError):
        read_arrays(path)


def test_damage_inside_a_compressed_member_is_found_when_it_is_read(tmp_path):
    path = tmp_path / "f.npz"
    np.savez_compressed(path, x=np.random.default_rng(0).normal(0, 1, (4, 1000)))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(UsageError, match="not a readable npz"):
        list(open_arrays(path)["x"].rows(range(4)))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"none\.npz: cannot read"):
        open_arrays(tmp_path / "none.npz")


@pytest.mark.parametrize(
    "shape", ["(10000000000000000000000,)", "(4611686018427387904, 4)", "(-3, -2)", "(0, 1000000000000000000000)"]
)
@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_a_header_that_claims_more_than_there_can_be_is_refused(tmp_path, shape, suffix):
    header = f"{{'descr': '|i1', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    data = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    path = tmp_path / f"f.{suffix}"
    path.write_bytes(data)
    if suffix == "npz":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("x.npy", data)
    with pytest.raises(UsageError, match="its header claims an array"):
        open_arrays(path)
