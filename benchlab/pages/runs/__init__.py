"""Every run in one table: filtered, sorted, grouped, compared, downloaded."""
