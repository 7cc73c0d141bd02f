"""Names that Mooring puts on objects of the API server."""

PREFIX = "mooring.dev/"
SCHEDULER = "mooring"
"""What pods say as their `schedulerName`."""
DEVICES = f"{PREFIX}devices"
"""Annotation with the devices that a pod was given."""
