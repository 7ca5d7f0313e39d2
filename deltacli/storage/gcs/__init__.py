"""Google Cloud Storage, by its JSON API."""
