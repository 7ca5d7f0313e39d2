"""Commands that copy a table, or convert it to or from another form: `copy`, `clone`, `convert` and `manifest`."""
