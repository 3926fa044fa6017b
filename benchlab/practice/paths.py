"""Where images and hosts live: a cache outside any clone, so that a fresh clone finds it warm."""

import os
from pathlib import Path


def cache_root() -> Path:
    """$BENCHLAB_CACHE, else $XDG_CACHE_HOME/benchlab, else ~/.cache/benchlab."""
    if own := os.environ.get("BENCHLAB_CACHE"):
        return Path(own).absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache").absolute() / "benchlab"


def images_dir() -> Path:
    """Root images, one directory per recipe."""
    return cache_root() / "practice" / "images"


def hosts_dir() -> Path:
    """Hosts that exist now, running or powered off, one directory per name; $BENCHLAB_HOSTS, else in the cache."""
    if own := os.environ.get("BENCHLAB_HOSTS"):
        return Path(own).absolute()
    return cache_root() / "practice" / "hosts"
