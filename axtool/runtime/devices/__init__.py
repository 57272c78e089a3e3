"""Boards that run compiled models: the seam for hardware (`seam`), and what stands behind it here."""
