"""Commands that can only look: whole forms, with every flag of the programs' manuals tried on each."""

from __future__ import annotations

import itertools
import shlex
import shutil
import string
import subprocess

import pytest

from agents.look_only import FORMS, known_programs, only_looks

LOOKS = """
cat /proc/mdstat
cat /sys/block/sda/queue/scheduler /proc/sys/vm/dirty_ratio
cat /sys/devices/pci0000:00/0000:00:1f.2/ata1/host0/model
cat /proc/spl/kstat/zfs/bl1abc/objset-0x36
grep -q none /sys/block/sda/queue/scheduler
grep -qE [a-z]+ /proc/cpuinfo /proc/mounts
test -e /dev/sda
test ! -b /dev/disk/by-id/wwn-0x1
test /dev/sda -ef /dev/disk/by-id/wwn-0x1
test -n none
test writeback = none
test 4 -ge 2
uname -r
nproc
lscpu -J
lspci -nnk -s 00:1f.2
lsmod
modinfo -F version zfs
hostname
lsblk -nro NAME,TYPE /dev/sda
lsblk --json
findmnt -nr -T /mnt/x
blkid -p -o value /dev/sda1
stat -c '%s %n' /dev/sda
ls -l /dev/disk/by-id
readlink -f /dev/disk/by-id/wwn-0x1
df -h /
pvs --noheadings -o pv_name,vg_name
/sbin/lvs -a --units b bl1/data
vgs
udevadm settle
udevadm settle --timeout=30
udevadm info --query=property --name=/dev/sda
mdadm --detail --export /dev/md/bl1
mdadm --examine /dev/sda
zpool status -x bl1
zpool list -Hp -o name,size
dmsetup status --noflush
dmsetup table --target writecache
"""
# What an operator tried, and would try next.
ACTS = """
lvs --config log{file=/etc/cron.d/x}
lvs --config=log{file=/x}
pvs --devicesfile x
vgs --profile x
lvs --commandprofile x
lvs -S x
blkid
blkid /dev/sda
blkid -c /etc/x
blkid -p -c /etc/x /dev/sda
blkid -pc/etc/x /dev/sda
blkid -p -w /x /dev/sda
blkid -g
hostname evil
hostname -F /etc/shadow
hostname -b x
udevadm info --cleanup-db
udevadm info -c
udevadm trigger
udevadm control -R
udevadm settle --exit-if-exists=/etc/shadow
cat
cat -
cat x
cat /etc/shadow
cat /proc/self/root/etc/shadow
cat /proc/1/environ
cat /proc/self/cwd/x
cat /proc/../etc/shadow
cat /sys/block/../../etc/shadow
cat /sys/kernel/debug/x
cat /proc/kcore
cat /proc/kmsg
cat /proc/keys
cat /proc/sys/../../etc/shadow
cat /proc/mdstat /etc/shadow
cat /sys/block/sda/./x
grep x
grep x /etc/shadow
grep -f /etc/shadow /proc/mounts
grep -r x /proc/mounts
grep -e x /proc/mounts
grep -qf x /proc/mounts
grep --file=/etc/shadow x /proc/mounts
lspci -O x=y
lspci -i /etc/shadow
lspci -F /etc/shadow
lspci -p /etc/shadow
lspci -q
modinfo /etc/x.ko
modinfo -b /x y
modinfo -k x y
findmnt -F /etc/shadow
findmnt --poll
findmnt -s
findmnt -N 1
lsblk --sysroot /x
lsblk --sysroot=/x
ls -l relative
stat --printf=x x
zpool
zpool status -c evil
zpool status -vc evil
zpool status bl1 1
zpool list 1
zpool destroy bl1
dmsetup
dmsetup table --showkeys
dmsetup remove x
dmsetup status --config=x
mdadm --stop /dev/md0
mdadm --detail --config=/etc/shadow /dev/md0
mdadm --detail /dev/md0 --stop
mdadm --examine -c /etc/shadow
mdadm --examine /dev/../etc/x
df --output=x
df -x
readlink x
nproc --ignore=1
uname --help
lscpu -s /x
test
test -v 'a[$(reboot)]'
test ! -v 'a[$(reboot)]'
test -R 'a[$(reboot)]'
test 'a[$(reboot)]' -eq 1
test 1 -eq 'a[$(reboot)]'
test -e /x -o -v 'a[$(reboot)]'
test -n x -a -v 'a[$(reboot)]'
test '(' -v 'a[$(reboot)]' ')'
test -o errexit
test -t 0
test -e relative
test -n -v
./cat /proc/mounts
bin/cat /proc/mounts
/tmp/cat /proc/mounts
sh -c x
env
'lvs' '-o' 'x
y'
"""
# Long flags of the manuals that read, write or run something.
LONG = """
--config --configreport --commandprofile --devicesfile --devices --journal --logreport --nohints --profile --select
--binary --cache-file --garbage-collect --hint --sysroot --tab-file --fstab --poll --task --verify --cleanup-db
--export-db --prefix --attribute-walk --wait-for-initialization --exit-if-exists --cleanup --config-file --update
--assemble --remove --stop --zero --file --recursive --include --exclude-from --dereference-recursive --binary-files
--output-fields --concise --showkeys --showconfig --set-version --basedir --json-lines --printf --format --hyperlink
--dired --output --sync --pathnames
"""
# Short flags that read nothing of one's choice, write nothing and run nothing, by the manuals.
HARMLESS = """
df ahHiklPT
findmnt abDJlnrRuvA
hostname sfdiIA
ls 1aAdhilLnrRsStFp
lsblk abdDfimnlJpPrsStTz
lscpu abcehJpx
lspci nkvDmt
lvs a
pvs a
readlink efmnqsvz
stat Lft
uname asnrvmpio
vgs a
zpool HLPpvxtDsige
blkid p
"""
# Those that take a word of a kind that names no file: columns, a type, a device.
TAKING = """
df t
findmnt oTtSM
lsblk oeI
lvs o
pvs o
udevadm qnt
vgs o
zpool o
stat c
"""


def commands(text: str) -> list[list[str]]:
    """One a line; what is quoted may go on in the next."""
    found, line = [], ""
    for part in text.strip().split("\n"):
        line = f"{line}\n{part}" if line else part
        if line.count("'") % 2 == 0:
            found.append(shlex.split(line))
            line = ""
    return found


def test_what_looks_is_known():
    assert [words for words in commands(LOOKS) if not only_looks(words)] == []


def test_what_could_do_more_is_not():
    every = [*commands(ACTS), [""], [], ["stat", "-c", "a\0b", "/dev/sda"]]
    assert [words for words in every if only_looks(words)] == []


def test_every_program_has_a_command_that_looks():
    assert {words[0].rpartition("/")[2] for words in commands(LOOKS)} == set(known_programs())


def test_bash_runs_what_stands_in_a_subscript(tmp_path):
    """That is why `test` has forms, too. By each of its unary operators, the real bash: what passes runs nothing."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    ran = set()
    for letter in string.ascii_letters:
        word = f"a[$(touch {tmp_path}/{letter})]"
        script = f'test -{letter} "$1"'
        subprocess.run([bash, "-c", script, "bash", word], check=False, capture_output=True)
        if (tmp_path / letter).exists():
            ran.add(letter)
        assert not only_looks(["test", f"-{letter}", word])
    assert "v" in ran
    assert [letter for letter in ran if only_looks(["test", f"-{letter}", "/dev/sda"])] == []


@pytest.mark.parametrize("program", FORMS)
def test_no_other_flag_passes(program):
    """Alone, with a value glued to it or behind it, before each kind of operand: a device, a name, a file, nothing."""
    harmless = dict(commands(HARMLESS)).get(program, "")
    taking = dict(commands(TAKING)).get(program, "")
    takes_places = program in ("df", "findmnt", "ls", "readlink", "stat")
    flags = [f"-{letter}" for letter in string.ascii_letters + string.digits] + LONG.split()
    values = ("", "/etc/shadow", "=/etc/shadow")
    operands: tuple[list[str], ...] = (["/dev/sda"], ["sda"], ["/proc/mdstat"], ["/"], [])
    for form, flag, value, rest in itertools.product(FORMS[program], flags, values, operands):
        glued = [program, *form.begins, flag + value, *rest]
        if only_looks(glued):
            short = len(flag) == 2 and flag[1] in harmless + (taking if rest else "")
            alone = short or (flag == "--output" and "o" in taking and rest)
            assert not value and alone, glued
        apart = [program, *form.begins, flag, "/etc/shadow", *rest]
        assert takes_places or not only_looks(apart), apart
