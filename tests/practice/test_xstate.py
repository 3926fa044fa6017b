"""The help that User Mode Linux needs on CPUs with AMX: asked for there only, and what it hands on is the whole."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from benchlab.practice import machine, uml

CPUINFO = "processor\t: 0\nflags\t\t: fpu sse avx512f {}\n\nprocessor\t: 1\nflags\t\t: fpu sse avx512f {}\n"
# A child is stopped, its registers are read and written back in 2696 bytes, as User Mode Linux does. Printed first is
# what there is: less than that on a CPU without AVX-512's registers.
ASK = """
import ctypes, os, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long
pid = os.fork()
if not pid:
    libc.ptrace(0, 0, None, None)
    os.kill(os.getpid(), signal.SIGSTOP)
    os._exit(7)
os.waitpid(pid, 0)
class Iovec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
bytes_of = ctypes.create_string_buffer(1 << 16)
iovec = Iovec(ctypes.cast(bytes_of, ctypes.c_void_p), 1 << 16)
libc.ptrace(0x4204, pid, 0x202, ctypes.addressof(iovec))
whole, iovec.length = iovec.length, 2696
said = [libc.ptrace(request, pid, 0x202, ctypes.addressof(iovec)) for request in (0x4204, 0x4205, 0x4204)]
libc.ptrace(7, pid, None, None)
print(whole, *said, iovec.length, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


@pytest.mark.parametrize(
    ("flag", "wide"), [("", False), ("amx_tile amx_int8", True), ("xamx_tile", False)]
)
def test_the_cpu_is_asked(tmp_path, flag, wide):
    (tmp_path / "cpuinfo").write_text(CPUINFO.format(flag, flag))
    assert machine.wide_registers(tmp_path / "cpuinfo") is wide
    assert machine.wide_registers(tmp_path / "none") is False


def test_nothing_is_preloaded_where_nothing_is_needed(monkeypatch):
    monkeypatch.setattr(uml, "wide_registers", lambda: False)
    assert uml.preloaded() == ()


@pytest.mark.skipif(not shutil.which("gcc"), reason="no gcc here")
def test_registers_can_be_written_back_as_user_mode_linux_does_it(tmp_path, monkeypatch):
    """On every CPU: where the whole is no larger, the shim hands on what it got."""
    monkeypatch.setenv("BENCHLAB_CACHE", str(tmp_path))
    monkeypatch.setattr(uml, "wide_registers", lambda: True)
    env = uml.preloaded()
    asked = subprocess.run(
        [*env, sys.executable, "-c", ASK], capture_output=True, text=True, check=True
    )
    whole, *said = map(int, asked.stdout.split())
    assert said == [0, 0, 0, min(whole, 2696), 7], asked.stderr
