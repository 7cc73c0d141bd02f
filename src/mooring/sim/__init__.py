"""Virtual time: one event loop that drives the engine."""
