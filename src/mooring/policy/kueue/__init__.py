"""Profile `kueue`: admission, preemption and placement by the rules of Kueue."""
