"""What the commands of `fleet` share."""
