"""CGI under a web server that runs its programs as root, as OpenWrt's uhttpd does: the program is
another user before it knows the request."""
import os
import pwd
import re
import shutil
import subprocess

import pytest

from harness import USER

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give something up")

REQUEST = {"GATEWAY_INTERFACE": "CGI/1.1", "REQUEST_METHOD": "GET", "SERVER_PROTOCOL": "HTTP/1.1",
           "SCRIPT_NAME": "/ai", "PATH_INFO": "/status", "QUERY_STRING": "", "REMOTE_ADDR": "127.0.0.1"}


def ask(site, prefix=(), status=0):
    """(its answer, what it asked the kernel for, in order) of one CGI process started by root."""
    trace = site.directory / "trace"
    done = subprocess.run(
        ["strace", "-f", "-qq", "-o", trace, "-e", "trace=setuid,setgroups,openat,prctl", *prefix, site.program],
        env={**REQUEST, "PATH": os.environ["PATH"], "PENNYGATE_CONFIG": str(site.config)},
        stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    assert done.returncode == status, done.stderr
    return done.stdout, trace.read_text(encoding="utf-8", errors="replace").splitlines()


def number_of(line):
    return int(line.partition("setuid(")[2].partition(")")[0])


def became(lines):
    return [number_of(line) for line in lines if "setuid(" in line and line.endswith("= 0")]


def test_root_becomes_the_owner_of_the_store_before_it_opens_it(site):
    site = site()
    answer, lines = ask(site)
    assert b'"available":true' in answer
    assert became(lines) == [site.store.stat().st_uid] != [0]
    begun = next(n for n, line in enumerate(lines) if "setuid(" in line)
    assert not any("data.mdb" in line for line in lines[:begun])
    assert any("data.mdb" in line for line in lines[begun:])


def groups_of(line):
    return [int(word) for word in re.findall(r"\d+", line.partition("[")[2].partition("]")[0])]


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="no setpriv")
@pytest.mark.parametrize("init", [True, False], ids=["the store's owner", "nobody"])
def test_no_group_of_roots_is_kept(site, init):
    """What the web server's groups may read, disk and log files among it, is none of the program's."""
    site = site(init=init)
    of_root = [0, 4, 6, 42]  # Debian's adm, disk and shadow; numbers need no name
    _, lines = ask(site, ["setpriv", "--groups", ",".join(map(str, of_root))])
    owner = pwd.getpwuid(became(lines)[0])
    taken = next(n for n, line in enumerate(lines) if "setuid(" in line)
    set_before = [line for line in lines[:taken] if "setgroups(" in line and line.endswith("= 0")]
    assert groups_of(set_before[0]) == of_root, "what setpriv gave it"
    assert sorted(groups_of(set_before[-1])) == sorted(os.getgrouplist(owner.pw_name, owner.pw_gid))
    assert not set(of_root) & set(groups_of(set_before[-1]))


def test_the_new_user_is_not_dumped_either(site):
    """As the user changes the kernel forgets that nothing was to be dumped."""
    _, lines = ask(site())
    own = [line for line in lines if line.split()[0] == lines[0].split()[0]]  # not of what it forks
    begun = next(n for n, line in enumerate(own) if "setuid(" in line)
    assert any("PR_SET_DUMPABLE, SUID_DUMP_DISABLE" in line for line in own[begun:])


def test_who_cannot_leave_root_says_503_and_opens_no_store(site):
    """As in a container that has taken CAP_SETUID away."""
    prefix = ["setpriv", "--bounding-set", "-setuid"]
    answer, lines = ask(site(), prefix, status=1)
    assert became(lines) == [] and sum("setuid(" in line for line in lines) == 2
    assert answer == (b"Status: 503 Service Unavailable\r\nRetry-After: 60\r\n"
                      b"Content-Type: text/plain\r\n\r\nnot set up properly\n")
    assert not any("data.mdb" in line for line in lines)


def test_root_is_nobody_where_there_is_no_store(site):
    site = site(init=False)
    answer, lines = ask(site)
    assert became(lines) == [65534]
    assert b'"code":"meter_unavailable"' in answer and not site.store.exists()


def test_root_is_nobody_where_there_is_no_configuration(site):
    site = site(init=False)
    site.config.unlink()
    answer, lines = ask(site)
    assert became(lines) == [65534]
    assert answer.startswith(b"Status: 503 ") and b'"code":"configuration"' in answer


def test_nothing_that_it_made_is_roots(site):
    site = site()
    ask(site)
    assert {path.owner() for path in site.store.rglob("*")} == {USER}
