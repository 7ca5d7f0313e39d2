"""The client of Delta Sharing: reads what others share, over HTTP, and trusts nothing that a server answers."""
