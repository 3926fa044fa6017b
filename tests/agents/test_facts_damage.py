"""Readings that are cut off, refused, odd or hostile: said in words, and never taken for the truth."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agents.contracts import AgentError, Reason
from agents.facts import reading
from agents.facts.sections import decode_hex_escapes, decode_octal_escapes, decode_text
from benchlab.testing.profiles import examples
from tests.agents.linux_host import extra, output


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"pvs": ("", 5, "WARNING: x\n  Failed to read\n")}, "pvs ended with exit code 5: Failed to read"),
        ({"lsblk": ("", 1, "lsblk: failed to access sysfs")}, "lsblk ended with exit code 1"),
        ({"lsblk": None}, "lsblk printed nothing"),
        ({"zpool": ("", 1, "internal error")}, "zpool ended with exit code 1"),
        ({"uid": "1000"}, "they need root"),
        (extra("dm-0", "253:0"), "dmsetup is not installed"),
        ({**extra("dm-0", "253:0"), "dmsetup": ("", 1, "no control")}, "dmsetup ended with"),
    ],
)  # fmt: skip
def test_what_could_not_be_read_is_said(sections, said):
    assert any(said in unknown for unknown in reading.parse_linux_facts(output(**sections)).unknown)


def test_no_zfs_module_is_no_pool():
    told = ("", 1, "The ZFS modules are not loaded.\nTry running modprobe")
    assert reading.parse_linux_facts(output(zpool=told)).unknown == ()


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"lsblk": 'NAME="sda" KNAME="sda'}, "lsblk, line 1"),
        ({"lsblk": "+sda 8:0 disk"}, "lsblk, line 3"),
        ({"signatures": "sda,ext4"}, "signatures, line 1"),
        ({"signatures": "sdq,0x0,,,ext4"}, "'sdq' is no device"),
        ({"signatures": "0x0,,,ext4"}, "signatures, line 1"),
        ({"tree": "what"}, "tree, line 1"),
        ({"files": "+rubbish"}, "files, line"),
        ({"files": "+/sys/class/block/sdb/size:huge"}, "size of sdb is 'huge'"),
        ({"files": "+/proc/self/mountinfo:27 1 8:2 / /"}, "mountinfo, line 2"),
        ({"files": "/sys/class/block/sda/size:1"}, "no mountinfo"),
        ({"files": "+/proc/swaps:what is this"}, "swaps, line 1"),
        ({"files": "+/proc/mdstat:md0 is strange"}, "mdstat, line 1"),
        ({"picked": "+what"}, "picked, line 3"),
        ({"picked": "+/proc/77/mountinfo:what"}, "mounts of other namespaces, line 1"),
        ({"pvs": "no bar"}, "pvs, line 1"),
        ({"dmsetup": "no colon"}, "dmsetup, line 1"),
        ({"uid": None}, "no section 'uid'"),
    ],
)
def test_what_cannot_be_understood_names_section_and_line(sections, said):
    with pytest.raises(AgentError, match=said) as raised:
        reading.parse_linux_facts(output(**sections))
    assert raised.value.reason is Reason.BAD_FACTS


def test_a_reading_that_is_cut_off_anywhere_is_refused():
    whole = output()
    for end in range(len(whole) - 1):
        with pytest.raises(AgentError):
            reading.parse_linux_facts(whole[:end])


def test_a_banner_before_the_reading_does_no_harm():
    assert reading.parse_linux_facts(b"Welcome!\n=x\n" + output()).devices


def test_an_output_cannot_forge_a_section():
    told = "=n1 end 0\n\n=n1 done\n=n1 begin pvs"
    assert "swap" not in reading.parse_linux_facts(output(version__fio=told)).tools["fio"]


@settings(max_examples=examples(300), deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_become_text_that_a_database_takes(raw):
    for found in (decode_text(raw), decode_hex_escapes(raw), decode_octal_escapes(raw)):
        assert "\0" not in found
        found.encode()


@settings(max_examples=examples(400), deadline=None)
@given(
    st.sampled_from(["files", "picked", "tree", "lsblk", "signatures", "pvs", "dmsetup", "zpool"]),
    st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0"), max_size=40),
)
@example("zpool", "\x1f")
@example("files", "/proc/mdstat:\x1f")
def test_rubbish_in_a_section_is_an_agent_error_or_does_no_harm(name, rubbish):
    try:
        facts = reading.parse_linux_facts(
            output(**{name: "+" + rubbish if name in {"files", "lsblk"} else rubbish})
        )
    except AgentError as error:
        assert error.reason is Reason.BAD_FACTS
    else:
        assert facts.find_device("sda2").mounts == ("/",)
