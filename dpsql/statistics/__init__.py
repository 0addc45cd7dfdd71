"""What is measured: one file per statistic or joint set of statistics, each an integer vector on a public grid with
its sensitivity under its theorem."""
