"""What URLs of stores are signed with: addresses and credentials, by the chain of each cloud."""
