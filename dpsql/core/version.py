"""Which dpsql this is."""

VERSION = "0.1.1"
