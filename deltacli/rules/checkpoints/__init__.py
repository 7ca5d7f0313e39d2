"""Rules about checkpoints and sidecars."""
