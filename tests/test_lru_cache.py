"""Values that a process keeps: those used last, made once, or put there by who has them."""

from __future__ import annotations

from benchlab.workers.lru_cache import LruCache


def test_what_was_used_last_is_kept_and_what_was_put_is_not_made():
    made = list[int]()

    def make(key: int) -> int:
        made.append(key)
        return key * key

    square = LruCache(make, most=2)
    square.store(3, 9)
    assert (square(3), square(4), square(3), made) == (9, 16, 9, [4])
    assert (square(5), square(3), square(4), made) == (25, 9, 16, [4, 5, 4])
    square.clear()
    assert square(4) == 16 and made == [4, 5, 4, 4]
