"""The trusted side, apart from the analyst's path: what lives here may read rows and says so; its output is not
private."""
