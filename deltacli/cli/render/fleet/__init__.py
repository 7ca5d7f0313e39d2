"""What the commands of `deltacli fleet` write."""
