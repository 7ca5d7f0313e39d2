"""What the server serves at a moment: the configuration and the recipients. A reload replaces it as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from deltacli.sharing.configuration.bearer_tokens import digest_of
from deltacli.sharing.configuration.recipients import Identity, Recipient, Recipients, TokenRecord
from deltacli.sharing.configuration.settings import Configuration
from deltacli.sharing.model import Catalog, Grant

EVERYONE = "anonymous"
"""The name of the recipient where requests need no token."""

OF_CONFIGURATION = "bearerToken"
"""The name of the recipient with the token of `authorization`."""


@dataclass(frozen=True)
class ServingState:
    """A configuration and its recipients. `generation` counts the reloads."""

    configuration: Configuration
    recipients: Recipients = field(default_factory=Recipients)
    generation: int = 0

    @property
    def is_open(self) -> bool:
        """Return True if requests need no token."""
        return not self.configuration.is_authenticated

    def find_token(self, token: str) -> Identity | None:
        """Return whose token this is, valid or not. Takes the same time for every wrong token."""
        found = self.recipients.find_token(token)
        of_all = self._of_configuration.find_token(token)
        return found or of_all

    def find_recipient(self, name: str) -> Recipient | None:
        """Return the recipient of this name, or None."""
        return self._of_configuration.find(name) or self.recipients.find(name)

    def catalog_of(self, recipient: Recipient) -> Catalog:
        """Return what a recipient may read."""
        if recipient.name == OF_CONFIGURATION:
            return self.configuration.catalog
        found = self._catalogs.get(recipient.name)
        if found is None:
            found = self._catalogs[recipient.name] = self.configuration.catalog.granted(recipient.grants)
        return found

    @cached_property
    def _catalogs(self) -> dict[str, Catalog]:
        return {}

    @cached_property
    def _of_configuration(self) -> Recipients:
        """The recipient of the configuration's token. Its epoch is the token's, so another one ends page tokens too."""
        token = self.configuration.bearer_token
        if token is None:
            return Recipients()
        record = TokenRecord("config", digest_of(token), 0)
        grants = tuple(Grant(share.name) for share in self.configuration.catalog.shares)
        return Recipients((Recipient(OF_CONFIGURATION, (record,), grants, record.epoch),))


def visible_names(state: ServingState) -> Mapping[str, int]:
    """Return how many shares, tables and recipients there are, for the log and for metrics."""
    shares = state.configuration.catalog.shares
    tables = sum(len(schema.tables) for share in shares for schema in share.schemas)
    return {"shares": len(shares), "tables": tables, "recipients": len(state.recipients.items)}
