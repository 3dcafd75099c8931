"""Training a network, step by step, with a state to resume from."""
