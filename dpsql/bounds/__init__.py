"""Contribution bounds that nobody named: histograms of units, the limit that they suggest, and what a limit cuts."""
