"""Charges a plan's commands to the ledger: the cycles."""
