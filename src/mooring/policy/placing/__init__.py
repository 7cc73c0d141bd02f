"""Where tasks go: nodes that fit, how good each is, a whole gang into the smallest domain."""
