"""What several tests build: audits, data, models, benchmarks, pages. One module per room."""
