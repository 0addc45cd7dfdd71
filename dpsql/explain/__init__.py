"""What `explain` tells of a quote: the facts (facts.py), and how they are shown to people (text.py)."""
