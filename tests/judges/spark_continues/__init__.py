"""Delta for Spark goes on with tables that a command of deltacli has changed."""
