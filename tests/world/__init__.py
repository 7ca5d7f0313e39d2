"""The world changes while a table is changed: every change, at every moment, beside every event."""
