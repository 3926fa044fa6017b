from tests.api.conftest import api, other_api
from tests.imports.conftest import shelved

__all__ = ["api", "other_api", "shelved"]
