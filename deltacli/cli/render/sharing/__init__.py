"""Results of `share`: recipients, tokens, profiles, and the check of a configuration."""
