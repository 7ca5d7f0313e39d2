"""`deltacli catalog ls CATALOG`."""

from __future__ import annotations

from typing import Annotated

from deltacli.cli.options.declared import argument
from deltacli.cli.running.run import Run
from deltacli.core.errors import command

EXIT_CODES = (0, 2, 3, 7, 70)


def catalog_ls(
    run: Run,
    catalog: Annotated[str, argument("Catalog or schema: uc://CATALOG or uc://CATALOG.SCHEMA.", "CATALOG")],
) -> None:
    """List the tables of a catalog or of a schema.

    \b
    Needs no access to the files of the tables. The endpoint is that of
    --catalog-profile, of DATABRICKS_HOST, or of UC_ENDPOINT.

    \b
    Examples:
      deltacli catalog ls uc://prod
      deltacli catalog ls uc://prod.sales --format csv
    """
    from deltacli.catalogs.unity.addresses import parse_container
    from deltacli.cli.render.catalog import listing_result

    container = parse_container(catalog)
    tables = run.open_catalog().tables_of(container.catalog, container.schema)
    run.write(listing_result(str(container), tables))
    known = next((one for one in tables if one.data_format == "DELTA"), None)
    if known is not None:
        run.say_next(command("snapshot", table=str(known.name)))
