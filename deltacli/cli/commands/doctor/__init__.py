"""Commands of `deltacli doctor`, which give advice on a table, its store, and the access to it."""
