"""Mooring: one scheduler for all the accelerators of an organisation."""

__version__ = "0.1.0"
