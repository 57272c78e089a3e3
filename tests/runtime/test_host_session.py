"""A host stage runs on one thread, and what onnxruntime says of it reaches the user once, as our error."""

import numpy as np
import onnx
import pytest

from axtool.artefact.axm import HostStage
from axtool.errors import UsageError
from axtool.runtime.model import HostSession

TEXT = (
    """<ir_version: 8, opset_import: ["": 17]> g (float[2,3] x, int64[N] s) => (float[A,B] y) { y = Reshape (x, s) }"""
)


def stage(text=TEXT):
    return HostStage(onnx.parser.parse_model(text).SerializeToString(), ("x", "s"), ("y",))


def test_a_host_stage_has_one_thread_whatever_the_device_has():
    options = HostSession(stage())._session.get_session_options()
    assert (options.intra_op_num_threads, options.inter_op_num_threads) == (1, 1)


def test_a_host_stage_that_fails_says_which_and_why(capfd):
    feeds = {"x": np.zeros((2, 3), np.float32), "s": np.array([5, 5])}
    with pytest.raises(UsageError, match=r"host stage of 'y': .*Reshape") as caught:
        HostSession(stage()).run(feeds)
    assert caught.value.code == "host-stage-failed"
    assert "onnxruntime_src" not in str(caught.value)
    assert capfd.readouterr().err == ""


def test_a_host_stage_that_does_not_load_says_which_and_why(capfd):
    with pytest.raises(UsageError, match=r"host stage of 'y': a host stage does not load") as caught:
        HostSession(HostStage(b"junk", ("x",), ("y",)))
    assert caught.value.code == "bad-host-stage"
    assert capfd.readouterr().err == ""
