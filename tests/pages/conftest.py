from tests.api.conftest import api, nudges, other_api, ours, theirs

__all__ = ["api", "nudges", "other_api", "ours", "theirs"]
