"""A program that a person named and root will run: only root may be able to change it, or to put another in its place.

Else whoever owns the file, or may write to any directory above it, is root on that host as soon as it is run.
"""

from __future__ import annotations

from agents.contracts import Shell

# sh -c SCRIPT sh PATH: prints what anybody but root could change, nothing when all is root's, and exits with 0.
SCRIPT = r"""
at=$(readlink -f -- "$1" 2>/dev/null) && [ -n "$at" ] && [ -e "$at" ] || { echo "$1 does not exist"; exit 0; }
[ -f "$at" ] && [ -x "$at" ] || { echo "$at is not an executable file"; exit 0; }
while :; do
    listed=$(ls -ldn -- "$at") || { echo "$at cannot be checked"; exit 0; }
    mode=${listed%% *}
    owner=$(printf '%s\n' "$listed" | { read -r _ _ owner _; echo "$owner"; })
    [ "$owner" = 0 ] || { echo "$at belongs to user $owner"; exit 0; }
    case $mode in
        d????????[tT]*) ;; # sticky: nobody but root can take away what is root's in there
        ?????w* | ????????w*) echo "$at is writable by users other than root ($mode)"; exit 0 ;;
    esac
    [ "$at" = / ] && exit 0
    at=$(dirname -- "$at")
done
"""


def doubt(shell: Shell, path: str) -> str:
    """Reason why root should not run this program, in words with a remedy; "" where only root can change it."""
    # By root: a program below /root is one that others do not even see.
    ran = shell.run(("sh", "-c", SCRIPT, "sh", path), root=True, timeout_s=20)
    said = (ran.stdout if ran.exit_code == 0 else ran.stderr).decode("utf-8", "replace").strip()
    if ran.exit_code == 0 and not said:
        return ""
    return (
        f"{path} would be run as root, but {said or 'it could not be checked'}. It and every directory above it must"
        " belong to root and be writable by root only."
    )
