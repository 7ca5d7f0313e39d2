"""Scripts that run in the environment of another engine: they import nothing of ours and answer in lines of JSON."""
