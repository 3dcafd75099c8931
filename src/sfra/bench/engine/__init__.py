"""The engine: cells named by what determines them, a store that keeps them, and runs that compute what is missing."""
