"""Speed, as ratios against a peer in the same run. `python -m benchmarks` runs everything and prints one table."""
