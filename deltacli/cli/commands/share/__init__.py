"""Commands of `deltacli share`: the server and the client of Delta Sharing."""
