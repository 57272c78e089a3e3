"""Compiled models over videos, cameras and folders: what `axtool run` does with them, as one function (`run`)."""
