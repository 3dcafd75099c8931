"""What each kind of cell computes."""
