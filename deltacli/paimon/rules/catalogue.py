"""All rules and checks for Paimon tables."""

from __future__ import annotations

from deltacli.delta.rules.framework.catalogue import Catalogue

PAIMON_CATALOGUE = Catalogue(
    "deltacli.paimon.rules",
    {
        "schema_files": "SchemaFileView",
        "fields": "SchemaFileView",
        "table_options": "SchemaFileView",
        "evolution": "EvolutionView",
        "branches": "BranchView",
    },
)
