"""Traces: public formats and our own, read into loads."""
