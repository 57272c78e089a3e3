"""What users of the vendor's runtime have written for it runs here with only its import line changed.

Each script is in the manner of that runtime's page on postambles. It runs in a folder with `digits.axm` (a detector of
10 classes), `my-model.axm` (a classifier) and `my_kernels.py`; the C++ extension of a kernel is a module of our own.
"""

from __future__ import annotations

import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axtool.runtime import mega

MY_KERNELS = """
import numpy as np
from axtool.runtime import TensorInfo, op


class MySoftmax(op.Operator):
    postamble_slot = 'kernel'

    infos: list[TensorInfo]
    model_width: int
    model_height: int
    axis: int

    def __init__(self, infos, model_width, model_height, *, axis=-1, name=''):
        if len(infos) != 1:
            raise ValueError(f"MySoftmax reads one output, this model has {len(infos)}")
        self.infos = infos
        self.model_width = model_width
        self.model_height = model_height
        self.axis = axis
        super().__init__(name=name)

    def __call__(self, x):
        e = np.exp(x - x.max(axis=self.axis, keepdims=True))
        return e / e.sum(axis=self.axis, keepdims=True)
"""

MY_FUSED = """
import numpy as np
from axtool.runtime import TensorInfo, op

import my_decode_ext


class MyFusedKernel(op.Operator):
    postamble_slot = 'fused_kernel'

    infos: list[TensorInfo]
    model_width: int
    model_height: int
    num_classes: int

    def __init__(self, infos, model_width, model_height, *, num_classes, name=''):
        for info in infos:
            if np.size(info.scale) != 1 or np.size(info.zero_point) != 1:
                raise ValueError(
                    "needs a per-tensor output quantization; drop the Postamble to run the onnx tail"
                )
        self.infos = infos
        self.model_width = model_width
        self.model_height = model_height
        self.num_classes = num_classes
        super().__init__(name=name)

    def __call__(self, *tensors):
        return my_decode_ext.decode(
            [np.ascontiguousarray(t) for t in tensors],
            [(i.shape, i.padding, float(i.scale), int(i.zero_point)) for i in self.infos],
            self.num_classes,
        )
"""


@pytest.fixture
def folder(tmp_path: Path, digits: Path, classifier: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a user works: models and kernels beside the script."""
    (tmp_path / "digits.axm").symlink_to(digits)
    (tmp_path / "my-model.axm").symlink_to(classifier)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.fixture
def my_kernels(folder: Path) -> Any:
    """The user's module, imported once for all tests: a class is registered when it is defined."""
    (folder / "my_kernels.py").write_text(MY_KERNELS)
    if "my_kernels" not in sys.modules:
        __import__("my_kernels")
    return sys.modules["my_kernels"]


def run(script: str, **known: Any) -> dict[str, Any]:
    """The names that a script leaves behind."""
    names: dict[str, Any] = {"__name__": "a_users_script", **known}
    exec(compile(script, "script.py", "exec"), names)
    return names


def image(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (120, 200, 3), np.uint8)


def test_a_built_in_kernel_is_named_when_the_model_is_loaded(folder: Path) -> None:
    names = run(
        """
from axtool.runtime import Postamble, op

preprocess = op.seq(op.color_convert('RGB', src='BGR'), op.letterbox(160, 160), op.to_tensor())
pipeline = op.seq(
    preprocess,
    op.load(
        'digits.axm',
        using_postamble=Postamble(
            fused_kernel='UltralyticsYoloPostamble', num_classes=10, dfl_bins=16
        ),
    ),
    op.decode_detections('yolov8', num_classes=10, confidence_threshold=0.01),
    op.nms(),
    op.to_image_space(),
    op.ax_detection(),
)
"""
    )
    found = names["pipeline"](image())
    assert all(0 <= value <= 1 for thing in found for value in thing.bbox.xyxy())
    optimized = names["pipeline"].optimized()(image())
    assert [thing.class_id for thing in optimized] == [thing.class_id for thing in found]


def test_the_wrong_slot_is_refused_in_the_words_of_the_page(folder: Path) -> None:
    with pytest.raises(ValueError, match="must be declared as") as caught:
        run(
            """
from axtool.runtime import Postamble, op
op.load('digits.axm', using_postamble=Postamble(kernel='UltralyticsYoloPostamble', num_classes=10))
"""
        )
    assert str(caught.value) == "UltralyticsYoloPostamble must be declared as fused_kernel=, not kernel=."


def test_both_slots_raise_value_error() -> None:
    with pytest.raises(ValueError, match="one kernel"):
        run("from axtool.runtime import Postamble\nPostamble('a:B', fused_kernel='UltralyticsYoloPostamble')")


@pytest.mark.parametrize("kernel", ["UltralyticsYoloPostamble", "ClassificationPostamble", "AnchoredYoloPostamble",
                                    "SsdPostamble"])  # fmt: skip
def test_a_kernel_that_needs_the_number_of_classes_says_so(folder: Path, kernel: str) -> None:
    with pytest.raises((TypeError, ValueError), match="num_classes"):
        run(
            f"""
from axtool.runtime import Postamble, op
op.load('digits.axm', using_postamble=Postamble(fused_kernel='{kernel}'))
"""
        )


def test_the_operators_are_those_of_the_page(folder: Path) -> None:
    names = run(
        """
from axtool.runtime import Postamble, op

AXM = 'digits.axm'
default = [type(o).__name__ for o in op.load(AXM).operators]
p = Postamble(fused_kernel='UltralyticsYoloPostamble', num_classes=10)
fused = [type(o).__name__ for o in op.load(AXM, using_postamble=p).operators]
"""
    )
    assert names["default"] == [
        "NchwToNhwc", "Quant", "Pad", "AxRuntimeModel", "Depad", "Dequant", "_AlignToModelOutput", "_ListUnpack",
        "OnnxModel",
    ]  # fmt: skip
    assert names["fused"] == [
        "NchwToNhwc", "Quant", "Pad", "AxRuntimeModel", "_ListUnpack", "UltralyticsYoloPostamble",
    ]  # fmt: skip


def test_a_kernel_is_selected_for_models_exported_by_ultralytics_and_an_empty_postamble_keeps_the_graph(
    folder: Path,
) -> None:
    names = run(
        """
from axtool.runtime import Postamble, op

picked = [type(o).__name__ for o in op.load('digits.axm').optimized().operators]
kept = [type(o).__name__ for o in op.load('digits.axm', using_postamble=Postamble()).optimized().operators]
"""
    )
    assert names["picked"][-1] == "UltralyticsYoloPostamble"
    assert names["kept"][-1] == "OnnxModel"


def test_the_module_of_the_kernels_says_where_it_is() -> None:
    said = subprocess.run(
        [sys.executable, "-c", "from axtool.runtime import mega; print(mega.__file__)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert Path(said.stdout.strip()) == Path(str(mega.__file__))


def test_a_numpy_kernel_of_the_user_is_named_by_its_module(folder: Path, my_kernels: Any) -> None:
    names = run(
        """
from axtool.runtime import Postamble, op

model = op.load('my-model.axm', using_postamble=Postamble(kernel='my_kernels:MySoftmax'))
tail = op.load('my-model.axm')
"""
    )
    x = np.random.default_rng(1).random((1, 3, 16, 16), np.float32)
    np.testing.assert_allclose(names["model"](x), names["tail"](x), rtol=1e-5, atol=1e-6)


def test_the_printed_pipeline_shows_the_fields_of_the_users_kernel(folder: Path, my_kernels: Any) -> None:
    names = run(
        """
from axtool.runtime import Postamble, op
import my_kernels

model = op.load('my-model.axm', using_postamble=Postamble(kernel=my_kernels.MySoftmax, axis=1))
"""
    )
    assert "model_width=16" in repr(names["model"])
    assert "axis=1" in repr(names["model"])


def test_the_users_kernel_cannot_take_the_slot_that_it_is_not_written_for(folder: Path, my_kernels: Any) -> None:
    with pytest.raises(ValueError, match=r"MySoftmax must be declared as kernel=, not fused_kernel=\."):
        run(
            """
from axtool.runtime import Postamble, op
op.load('my-model.axm', using_postamble=Postamble(fused_kernel='my_kernels:MySoftmax'))
"""
        )


def test_a_saved_pipeline_builds_the_users_kernel_again(folder: Path, my_kernels: Any) -> None:
    names = run(
        """
from axtool.runtime import Postamble, op

model = op.load('my-model.axm', using_postamble=Postamble(kernel='my_kernels:MySoftmax', axis=1))
op.seq(model).save_axe('saved.axe')
again = op.load('saved.axe')
"""
    )
    assert "MySoftmax" in repr(names["again"])
    x = np.random.default_rng(1).random((1, 3, 16, 16), np.float32)
    np.testing.assert_array_equal(names["again"](x), names["model"](x))


def test_a_class_of_the_main_module_is_refused() -> None:
    script = MY_KERNELS.replace("MySoftmax", "TailInMain")
    with pytest.raises(ValueError, match="TailInMain is defined in __main__, where an import cannot find it again"):
        run(script + "\nfrom axtool.runtime import Postamble\nPostamble(kernel=TailInMain)\n", __name__="__main__")


def test_a_kernel_hands_its_buffers_to_an_extension_module_of_the_user(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {}

    def decode(buffers: list[np.ndarray], infos: list[tuple[Any, ...]], num_classes: int) -> np.ndarray:
        seen.update(buffers=buffers, infos=infos)
        return np.full((1, 4 + num_classes, 525), 3, np.float32)

    extension = types.ModuleType("my_decode_ext")
    extension.decode = decode  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "my_decode_ext", extension)
    (folder / "my_fused.py").write_text(MY_FUSED)
    names = run(
        """
from axtool.runtime import Postamble, op

load = op.load('digits.axm', using_postamble=Postamble(fused_kernel='my_fused:MyFusedKernel', num_classes=10))
pipeline = op.seq(load, op.itemgetter(0))
"""
    )
    assert np.all(names["pipeline"](np.zeros((1, 3, 160, 160), np.float32)) == np.full((14, 525), 3))
    assert len(seen["buffers"]) == len(seen["infos"]) == 6
    for buffer, (shape, padding, scale, zero_point) in zip(seen["buffers"], seen["infos"], strict=True):
        assert (buffer.dtype, buffer.shape, buffer.flags.c_contiguous) == (np.int8, shape, True)
        assert len(padding) == 4
        assert scale > 0
        assert -128 <= zero_point <= 127


def test_the_check_of_a_kernel_against_plain_numpy_needs_no_device() -> None:
    run(
        """
import numpy as np
from axtool.runtime import TensorInfo, mega

info = TensorInfo(
    (1, 1, 1, 1024),
    np.int8,
    padding=[(0, 0), (0, 0), (0, 0), (0, 24)],
    scale=0.125,
    zero_point=-37,
)


def reference(raw, info, num_classes):
    x = raw[tuple(slice(b, -e if e else None) for b, e in info.padding)]
    x = (x.astype(np.float32) - info.zero_point) * info.scale
    x = x.reshape(1, num_classes)
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


raw = np.random.default_rng(0).integers(-128, 128, size=info.shape, dtype=np.int8)
got = mega.ClassificationPostamble([info], 224, 224, num_classes=1000)(raw)

np.testing.assert_allclose(got, reference(raw, info, 1000), rtol=1e-5, atol=1e-6)
"""
    )
