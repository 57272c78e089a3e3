"""The built-in postamble kernels: each is an Operator class in a file of its own beside this one."""

from __future__ import annotations

__all__: list[str] = []
