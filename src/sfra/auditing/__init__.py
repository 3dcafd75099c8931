"""The audit: from a released classifier and data to a verdict; ``audit.py`` tells the story."""
