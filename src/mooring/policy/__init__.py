"""How the engine chooses: pure functions over the model."""
