"""The benchmark: a grid of cells, each computed once, kept in one folder, and a report that reads only that folder."""
