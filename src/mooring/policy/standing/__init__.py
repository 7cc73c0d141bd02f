"""Everybody who runs in one line, and who may be asked to leave for whom."""
