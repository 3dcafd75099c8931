"""The demonstration: the whole story on embedded real data."""
