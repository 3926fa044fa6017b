"""Files whose size nobody but dynamo told: behind the listener, where it prepares them itself."""

from __future__ import annotations

import pytest

from agents.dynamo import account, specs, summary, transcript
from tests.agents.test_dynamo_tool import FULL

UNSEEN, WRONG = "the size of dynamo's file on", "not to be trusted"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("/data [xfs]", WRONG), ("/a [b] c [xfs]", WRONG), ("/data [ext4]", ""), ("/data [btrfs]", ""),
        ("/data [nfs4]", UNSEEN), ("/data [f2fs]", UNSEEN), ('C: "xfs"', ""), ("/mnt/bl1/iometer1 [files]", ""),
        ("sdb", ""), ("/dev/sdb", ""),
    ],
)  # fmt: skip
def test_what_belongs_to_a_figure(name: str, said: str) -> None:
    assert specs.file_size_doubt(name).startswith(said) and bool(
        specs.file_size_doubt(name)
    ) is bool(said)
    assert specs.laid_out_short(name) is (said == WRONG)


def test_a_session_of_before_is_marked_when_it_is_read_again() -> None:
    (test,) = account.reconstruct_tests(transcript.parse_transcript(FULL))
    assert "xfs" not in summary.summary_rows(test)[0].note
    worker = test.workers[0]
    moved = worker._replace(targets=(worker.targets[0]._replace(name="/srv/disk1 [xfs]"),))
    marked = test._replace(workers=(moved, *test.workers[1:]))
    assert "/srv/disk1 [xfs] is on XFS" in summary.summary_rows(marked)[0].note
