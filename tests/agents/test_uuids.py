"""UUIDs that a layout gives: lasting, its own, and known again in every spelling."""

import uuid

from agents.uuids import is_uuid_of, lvm_uuid_of, uuid_of


def test_a_uuid_is_lasting_and_valid():
    given = uuid_of("bl17", "md", "0")
    assert given == uuid_of("bl17", "md", "0") == str(uuid.UUID(given))
    assert uuid.UUID(given).version == 8 and uuid.UUID(given).variant == uuid.RFC_4122
    assert given == "7612ee19-e72f-817f-8e5c-ca1f90c1acc5", "a layout that stands has this one"


def test_every_thing_has_its_own():
    words = [("pv", "1"), ("pv", "11"), ("pv1",), ("pv", "1", ""), ("md",), ()]
    assert len({uuid_of("bl17", *what) for what in words}) == len(words)
    assert uuid_of("bl1", "7pv") != uuid_of("bl17", "pv")


def test_it_is_known_again_in_every_spelling():
    given = uuid_of("bl17", "md")
    digits = given.replace("-", "")
    md = ":".join(digits[i : i + 8] for i in range(0, 32, 8))
    for spelling in (given, given.upper(), md, lvm_uuid_of("bl17", "md")):
        assert is_uuid_of(spelling, "bl17")
        assert not is_uuid_of(spelling, "bl1") and not is_uuid_of(spelling, "bl170")
    assert not is_uuid_of(given[:-1], "bl17") and not is_uuid_of("", "bl17")
    assert not is_uuid_of(given, "")


def test_lvm_spells_it_its_own_way():
    assert [len(part) for part in lvm_uuid_of("bl17", "pv").split("-")] == [6, 4, 4, 4, 4, 4, 6]
