"""Delta Sharing: tables for recipients who have no access to the store, over HTTP.

Spec: the Delta Sharing protocol.
"""
