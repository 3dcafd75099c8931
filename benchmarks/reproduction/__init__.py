"""What is kept of the published experiments, and what is made of it: rows, archives, comparison, document."""
