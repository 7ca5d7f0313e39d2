"""What deltacli says about tables that Delta for Spark wrote, compared with what Spark says about them."""
