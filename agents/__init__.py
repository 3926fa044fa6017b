"""All that touches a host. Imports neither Django nor benchlab."""
