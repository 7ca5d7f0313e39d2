"""Scripts that run in the environment of pypaimon: they import nothing of deltacli and answer in JSON lines."""
