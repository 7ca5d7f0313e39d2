"""The status of a fleet in other forms: a page, findings of all tables, metrics, a webhook.

Every form is made from the `FleetStatus` that `deltacli.fleet.status` computes, and none of them
opens a table.
"""
