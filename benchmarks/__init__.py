"""How fast dpsql is, how far off its answers are, and what it needs: `python -m benchmarks` measures it."""
