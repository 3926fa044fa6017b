"""A tool on its host: started detached, polled, fetched, stopped; files of any size."""
