"""At a release, `python3 tests/states/make.py VERSION` makes the state that later versions are tried on.

It is a backup of a small lab (lab.py) by the tree as it is, with what the lab's figures were then (told.json) and the
hashes of its migrations. Nothing is written over. `--tree DIRECTORY`: of another tree, such as a work tree of an older
commit, which gets no hashes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MOST = 350_000  # bytes of a state
TOLD, HASHES = "told.json", "migrations.json"
PLAIN = ("PATH", "HOME", "LANG")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("version")
    parser.add_argument("--tree", type=Path, default=ROOT)
    wish = parser.parse_args()
    target = HERE / wish.version
    if target.exists():
        raise SystemExit(f"{target} is there already: a state that was kept is never made again.")
    with tempfile.TemporaryDirectory(prefix="benchlab-state-") as name:
        place = Path(name)
        place.chmod(0o755)
        shutil.move(made(place, wish.tree.resolve()), target)
    if wish.tree == ROOT:
        (target / HASHES).write_text(json.dumps(migrations(), indent=1) + "\n")
    size = sum(path.stat().st_size for path in target.iterdir())
    print(f"{target}: {size:,} bytes")
    if size > MOST:
        raise SystemExit(f"That is too much for a repository: {MOST:,} at most.")


def made(place: Path, tree: Path) -> Path:
    """Backup of a new lab of that tree, with what it tells."""
    env = {name: os.environ[name] for name in PLAIN if name in os.environ}
    env["BENCHLAB_STATE"] = str(place / "state")

    def manage(*words: str) -> str:
        argv = [sys.executable, "manage.py", *words]
        return subprocess.run(
            argv, cwd=tree, env=env, check=True, stdout=subprocess.PIPE, text=True
        ).stdout

    manage("prepare")
    lab, cases = str(HERE / "lab.py"), str(ROOT / "tests/cases/tools")
    code = f"import runpy, pathlib; runpy.run_path({lab!r})['told'](pathlib.Path({cases!r}))"
    told = json.loads(manage("shell", "--no-imports", "-c", code).strip().splitlines()[-1])
    kept = place / "kept"
    manage("backup", str(kept))
    manifest = json.loads((kept / "manifest.json").read_text())
    # Which machine made it is nobody's business, and no test's machine is that one.
    (kept / "manifest.json").write_text(json.dumps(manifest | {"machine": ""}) + "\n")
    (kept / TOLD).write_text(json.dumps(told, separators=(",", ":")) + "\n")
    return kept


def migrations() -> dict[str, str]:
    """SHA-256 of each migration of the tree, by its path."""
    found = sorted(ROOT.glob("benchlab/*/migrations/0*.py"))
    return {
        str(path.relative_to(ROOT)): hashlib.sha256(path.read_bytes()).hexdigest() for path in found
    }


if __name__ == "__main__":
    main()
