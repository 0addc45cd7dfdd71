"""Sessions on a server: `dpsql.connect("https://…", token=…)`, and how answers travel."""
