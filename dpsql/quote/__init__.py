"""From what was analyzed to a Quote: which noise each statistic gets, in which stages it is measured, what it costs."""
