"""Commands, scripts and words of them that several layers share."""
