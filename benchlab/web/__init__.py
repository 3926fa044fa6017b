"""What pages and the API of every room share: errors, paging, filters, schema, static files."""
