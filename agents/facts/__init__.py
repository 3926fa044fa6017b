"""Commands that describe a host, and pure parsers of what they print."""
