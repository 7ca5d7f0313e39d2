"""The status of a fleet in other forms: a page, findings of all tables, a server of metrics, a webhook."""
