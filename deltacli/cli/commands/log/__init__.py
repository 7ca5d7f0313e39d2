"""Commands of `deltacli log`, which maintain the directory `_delta_log`."""
