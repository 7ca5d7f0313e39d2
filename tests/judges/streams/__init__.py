"""Real streaming queries are stopped, judged by `deltacli streams`, and started again."""
