"""The status of a fleet in other forms: a page, findings of all tables, metrics, a webhook.

Start with `page.py` and `monitoring.py`, which are made from the `FleetStatus` that
`deltacli.fleet.status` computes.
"""
