"""`repair`: recover what is lost, rebuild what can be computed, and only then remove what is gone."""
