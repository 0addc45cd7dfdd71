"""From a Plan to what is known of it before any row is read: types, ranges, keys, and what one unit can change.

checked.py is the way in and catalog.py what it rests on; what can't be bounded is refused here.
"""
