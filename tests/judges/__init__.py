"""Other engines judge what deltacli reads, writes and deletes: `README.md` says how, `dev.py judges` runs them."""
