"""The search for whoever has to leave, and what becomes of the room."""
