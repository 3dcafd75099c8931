"""Steps 1 and 2: place a head, sample probes, relearn. It imports ``core`` alone: nothing here can see data."""
