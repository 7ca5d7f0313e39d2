"""The ground floor: what every room stands on. Nothing here knows a table."""
