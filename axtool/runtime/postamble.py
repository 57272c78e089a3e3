"""`Postamble`: which kernel restores a model's outputs from what the device gives, and with which parameters.

A kernel is named by a built-in class, by "module:ClassName", or by a class at module scope, which is kept as its import
path. Only plain values go with it, so that a saved pipeline can build it again.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from axtool.errors import nearest

if TYPE_CHECKING:
    from axtool.runtime.op.operator import Operator

Slot = Literal["kernel", "fused_kernel"]
SLOTS: tuple[Slot, ...] = ("kernel", "fused_kernel")
MOST_LETTERS = 400  # of a kernel's name


class Postamble:
    """A kernel for one of two slots, with its parameters; without a kernel, the onnxruntime tail on purpose.

    `kernel` gets one float32 array for each tensor that the postamble graph reads, `fused_kernel` the padded,
    quantized buffers of the device. Raises ValueError where both are given, or where a class cannot be found again by
    its import path; TypeError for a parameter that is no plain value.
    """

    def __init__(
        self,
        kernel: str | type[Operator] | None = None,
        *,
        fused_kernel: str | type[Operator] | None = None,
        **params: Any,
    ) -> None:
        if kernel is not None and fused_kernel is not None:
            raise ValueError(
                f"a Postamble has one kernel: kernel={_shown(kernel)} and fused_kernel={_shown(fused_kernel)} are both "
                "given; keep the slot that the kernel is written for"
            )
        self.kernel = None if kernel is None else import_path(kernel)
        self.fused_kernel = None if fused_kernel is None else import_path(fused_kernel)
        if params and self.is_empty:
            raise ValueError(f"parameters without a kernel: {', '.join(params)}; name one in kernel= or fused_kernel=")
        if not isinstance(params.get("name", ""), str):
            raise TypeError(f"name is a {type(params['name']).__name__}, want a text")
        for key, value in params.items():
            _refuse_unless_plain(key, value)
        self.params: Mapping[str, Any] = params

    @property
    def is_empty(self) -> bool:
        """Whether the onnxruntime tail is kept."""
        return self.kernel is None and self.fused_kernel is None

    @property
    def slot(self) -> Slot | None:
        """The slot that is filled."""
        return "kernel" if self.kernel is not None else "fused_kernel" if self.fused_kernel is not None else None

    @property
    def kernel_name(self) -> str:
        """The kernel as it is written: a built-in class, or module:ClassName. Empty without one."""
        return self.kernel or self.fused_kernel or ""

    def kernel_class(self) -> type[Operator]:
        """The class, imported. Raises ImportError or ValueError naming what is missing and where it was looked for."""
        cls = find_kernel(self.kernel_name)
        written_for = getattr(cls, "postamble_slot", None)
        if written_for is not None and written_for not in SLOTS:
            raise ValueError(f"{cls.__name__}.postamble_slot is {written_for!r}, want {' or '.join(map(repr, SLOTS))}")
        if written_for is not None and written_for != self.slot:
            raise ValueError(f"{cls.__name__} must be declared as {written_for}=, not {self.slot}=.")
        return cls

    def to_dict(self) -> dict[str, Any]:
        """Plain values: the slot with the kernel's name, and the parameters."""
        return {} if self.slot is None else {self.slot: self.kernel_name, **self.params}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Postamble) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.slot, self.kernel_name))

    def __repr__(self) -> str:
        return f"Postamble({', '.join(f'{key}={value!r}' for key, value in self.to_dict().items())})"


def import_path(kernel: str | type[Operator]) -> str:
    """The name that a kernel is stored under. Raises ValueError for a class that an import would not find again."""
    if isinstance(kernel, str):
        parts = kernel.split(":")
        words = [word for part in parts for word in part.split(".")]
        if len(parts) > 2 or len(kernel) > MOST_LETTERS or not all(word.isidentifier() for word in words):
            shown = kernel if len(kernel) <= 60 else f"{kernel[:57]}..."
            raise ValueError(f"kernel {shown!r}: want the name of a built-in kernel, or 'module:ClassName'")
        return kernel
    if not isinstance(kernel, type):
        raise TypeError(f"a kernel is a name or a class, got {type(kernel).__name__}; parameters go beside it")
    module, name = kernel.__module__, kernel.__qualname__
    if module == "__main__" or "<locals>" in name:
        place = "in __main__" if module == "__main__" else f"inside {name.split('.<locals>')[0]}()"
        raise ValueError(
            f"{kernel.__name__} is defined {place}, where an import cannot find it again; "
            "move it to the top of a module that can be imported"
        )
    if module.startswith("axtool.runtime.mega."):
        return name
    return f"{module}:{name}"


def find_kernel(name: str) -> type[Operator]:
    """The class of a built-in name or of "module:ClassName".

    Raises ValueError for a name that is no built-in kernel, or an attribute that is no kernel; ImportError where the
    module cannot be imported, with where it was looked for.
    """
    module_name, _, class_name = name.rpartition(":")
    if not module_name:
        from axtool.runtime import mega

        if name not in mega.__all__:
            raise ValueError(
                f"there is no built-in kernel {name!r}; {nearest(name, mega.__all__)} "
                "(one of your own is written 'module:ClassName')"
            )
        return _checked(getattr(mega, name), name)
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        looked = ", ".join(entry or "." for entry in sys.path)
        raise ImportError(f"kernel {name!r}: cannot import {module_name!r}: {error}; looked in {looked}") from error
    except (Exception, SystemExit) as error:  # the module's own fault, whatever it is
        raise ImportError(
            f"kernel {name!r}: {module_name!r} fails while it is imported: {type(error).__name__}: {error}"
        ) from error
    found: Any = module
    for part in class_name.split("."):
        try:
            found = getattr(found, part, None)
        except Exception as error:  # a module may make its attributes when they are asked for
            raise ImportError(f"kernel {name!r}: {part!r} cannot be read: {type(error).__name__}: {error}") from error
    if found is None:
        classes = [key for key, value in vars(module).items() if isinstance(value, type)]
        place = getattr(module, "__file__", "built in")
        raise ImportError(
            f"kernel {name!r}: {module_name!r} ({place}) has no class {class_name!r}; {nearest(class_name, classes)}"
        )
    return _checked(found, name)


def _checked(found: Any, name: str) -> type[Operator]:
    from axtool.runtime.op.operator import Operator

    if not (isinstance(found, type) and issubclass(found, Operator)):
        raise ValueError(f"kernel {name!r} is not a subclass of op.Operator")
    return found


def _shown(kernel: str | type[Operator]) -> str:
    return repr(kernel) if isinstance(kernel, str) else getattr(kernel, "__name__", repr(kernel))


def _refuse_unless_plain(key: str, value: Any) -> None:
    """Numbers, strings, booleans, None, and lists, tuples and dicts of them."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return
    if isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            _refuse_unless_plain(f"{key}[{index}]", item)
    elif isinstance(value, dict):
        for name, item in value.items():
            if not isinstance(name, str):
                raise TypeError(f"{key} has the key {name!r}; the keys of a parameter are strings")
            _refuse_unless_plain(f"{key}.{name}", item)
    else:
        raise TypeError(
            f"{key} is a {type(value).__name__}; the parameters of a Postamble are plain values: numbers, strings, "
            "booleans, lists, dicts"
        )
