"""What the engine knows: values, and the books that change."""
