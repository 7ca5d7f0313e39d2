"""`share test`: checks any Delta Sharing server against the text of the protocol, with read-only requests."""
