"""What statements over private rows say, whichever engine runs them: plan nodes -> trees, of which backends write text.

render.py makes them, out of rows.py, bounding.py, tallies.py and the small pieces.py; types are those of core/types.py.
"""
