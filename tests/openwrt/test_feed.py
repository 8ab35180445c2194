"""The recipes: what feeds ask of their text, that they install what they name, and that the program
builds as OpenWrt would build it."""
import os
import re
import shutil
import subprocess

import pytest

from harness import BUILT
from router import FEED, KEY, RECIPE, ROOT, install, make, recipe_fields

RECIPES = sorted(path.parent for folder in ("net", "libs") for path in (FEED / folder).glob("*/Makefile"))
NAMES = [path.name for path in RECIPES]
VERSION = re.search(r"^VERSION += (\S+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)[1]
SCRIPTS = sorted(path for path in FEED.rglob("*") if path.is_file() and "luci" not in path.parts and
                 (path.read_bytes().startswith(b"#!/bin/sh") or path.name == "upgrade.sh"))


def define(text, name):
    found = re.search(rf"^define {re.escape(name)}\n(.*?)^endef", text, re.M | re.S)
    return found[1] if found else ""


def test_the_recipes_that_there_are():
    assert NAMES == ["bearssl", "libfcgi", "pennygate"]


@pytest.mark.parametrize("recipe", RECIPES, ids=NAMES)
def test_text(recipe):
    text = (recipe / "Makefile").read_text(encoding="utf-8")
    first = [line for line in text.splitlines() if line and not line.startswith("#")][0]
    assert first == "include $(TOPDIR)/rules.mk"
    assert text.rstrip().endswith(f"$(eval $(call BuildPackage,{recipe.name}))")
    assert re.search(r"^PKG_MAINTAINER:=\S.* <[^<>@ ]+@[^<>@ ]+>$", text, re.M)
    assert re.search(r"^PKG_RELEASE:=[1-9]\d*$", text, re.M)
    assert not re.search(r"^(define|\$\(eval|\$\(call).*\$\(PKG_NAME\)", text, re.M)
    fields = recipe_fields(recipe, recipe.name)
    assert fields["PKG_LICENSE"] in ("ISC", "MIT", "OML") and fields["PKG_LICENSE_FILES"]
    assert re.fullmatch(r"\d+(\.\d+)*(_(alpha|beta|pre|rc)\d+)?", fields["PKG_VERSION"])  # as apk wants it
    assert bool(fields["PKG_SOURCE"]) == bool(re.fullmatch(r"[0-9a-f]{64}", fields["PKG_HASH"]))
    for name, body in re.findall(r"^define (\S+)\n(.*?)^endef", text, re.M | re.S):
        lines = [line for line in body.splitlines() if line]
        if name.endswith(("/conffiles", "/prerm", "/postinst")):
            assert not any(line[0].isspace() for line in lines), name
        elif name.startswith("Build/") or name.endswith("/install"):
            assert all(line[0] == "\t" for line in lines), name
        else:
            assert all(re.match(r"  \S", line) for line in lines), name


def test_a_change_of_the_sources_makes_a_build_anew():
    """OpenWrt looks at the recipe's own directory and at these."""
    watched = recipe_fields(RECIPE, "pennygate")["PKG_FILE_DEPENDS"].split()
    copied = re.search(r"^\t\$\(CP\) (.*) \$\(PKG_BUILD_DIR\)/$", define(
        (RECIPE / "Makefile").read_text(encoding="utf-8"), "Build/Prepare"), re.M)[1]
    assert copied == "$(TREE)"
    assert sorted(os.path.relpath(path, ROOT) for path in watched) == [
        "LICENSE", "Makefile", "gateway", "platform", "store"]


def test_the_version_is_the_programs():
    assert recipe_fields(RECIPE, "pennygate")["PKG_VERSION"] == VERSION


def test_what_it_depends_on():
    fields = recipe_fields(RECIPE, "pennygate")
    assert set(fields["DEPENDS"].split()) == {"+libfcgi", "+lmdb", "+jansson", "+confuse", "+libcurl", "+ca-bundle"}
    assert fields["PKG_BUILD_DEPENDS"] == "bearssl"
    assert recipe_fields(FEED / "libs/bearssl", "bearssl")["BUILDONLY"] == "1"
    assert recipe_fields(FEED / "libs/libfcgi", "libfcgi")["PKG_FIXUP"] == "autoreconf"
    # What OpenWrt's programs have that face the network.
    assert re.search(r"^PKG_ASLR_PIE_REGULAR:=1$", (RECIPE / "Makefile").read_text(encoding="utf-8"), re.M)
    assert fields["USERID"] == "pennygate=870:pennygate=870"  # or what is on flash changes hands


def test_what_is_installed(tmp_path):
    install(tmp_path)
    files = {str(path.relative_to(tmp_path)): path for path in tmp_path.rglob("*") if not path.is_dir()}
    modes = {name: path.lstat().st_mode & 0o777 for name, path in files.items()}
    assert modes.pop("etc/config/pennygate") == 0o600  # it holds keys
    assert os.readlink(files.pop("usr/share/pennygate/www/cgi-bin/pennygate")) == "/var/run/pennygate/cgi"
    for name in files:
        executable = name.startswith(("usr/sbin/", "usr/libexec/", "etc/init.d/", "etc/uci-defaults/"))
        assert name == "etc/config/pennygate" or modes[name] == (0o755 if executable else 0o644), name
    text = (RECIPE / "Makefile").read_text(encoding="utf-8")
    used = set(re.findall(r"\./files/(\S+)", text))
    assert used == {path.name for path in (RECIPE / "files").iterdir()}
    conffiles = define(text, "Package/pennygate/conffiles").split()
    assert conffiles == ["/etc/config/pennygate", "/etc/pennygate/"]


@pytest.mark.parametrize("environment, is_removed", [({}, True), ({"PKG_UPGRADE": "1"}, False),
                                                     ({"IPKG_INSTROOT": "/image"}, False)])
def test_what_is_done_before_it_is_removed(router, environment, is_removed):
    """On a router alone, not where an image is made; and an upgrade takes nothing away."""
    text = define((RECIPE / "Makefile").read_text(encoding="utf-8"), "Package/pennygate/prerm")
    router.configure()
    router.init("start")
    state = sorted(router.state.rglob("*"))
    router.script("prerm", "")
    router.rewrite(router.root / "prerm", text.replace("$$", "$"))
    router.script("etc/init.d/pennygate", '#!/bin/sh\nprintf "init\\t%s\\n" "$*" >>"$RECORD"\n')
    done = router.shell(router.root / "prerm", **environment)
    assert done.returncode == 0 and done.stderr == ""
    assert router.called("init") == ([["stop"], ["unmount"]] if is_removed else [])
    held = [path for path in router.files() if KEY.encode() in path.read_bytes() and path != router.uci]
    assert bool(held) != is_removed
    assert sorted(router.state.rglob("*")) == state


@pytest.mark.parametrize("script", SCRIPTS, ids=[str(path.relative_to(FEED)) for path in SCRIPTS])
def test_scripts(script):
    for command in (["busybox", "ash", "-n"], ["shellcheck", "-s", "dash", "-e", "SC3043,SC2034,SC2154,SC1008"]):
        if shutil.which(command[0]) is None:
            pytest.skip(f"{command[0]} is not installed")
        done = subprocess.run([*command, script], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    text = script.read_text(encoding="utf-8")
    if script.name.endswith(".defaults"):
        assert text.rstrip().endswith("\nexit 0")
    if script.name.startswith("test"):
        assert not re.search(r"grep +(-\w*q|--quiet)", text)


@pytest.mark.parametrize("version, status", [(VERSION, 0), ("99.9", 1)])
def test_the_feeds_own_test(tmp_path, version, status):
    shutil.copy(BUILT, tmp_path / "pennygate")
    done = subprocess.run(["/bin/sh", RECIPE / "test.sh", "pennygate", version], capture_output=True, text=True,
                          env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, check=False)
    assert done.returncode == status
    done = subprocess.run(["/bin/sh", RECIPE / "test-version.sh"], capture_output=True, text=True, check=False,
                          env={"PATH": f"{tmp_path}:/usr/bin:/bin", "PKG_NAME": "pennygate", "PKG_VERSION": version})
    assert done.returncode == status
    for flag in ("version", "--version"):  # what that feed tries by itself
        assert VERSION in subprocess.run([BUILT, flag], capture_output=True, text=True, check=True).stdout


def test_the_snippet_of_lighttpd(tmp_path):
    path = tmp_path / "lighttpd.conf"
    path.write_text(f'server.document-root = "/tmp"\nserver.port = 1\nserver.modules += ("mod_fastcgi")\n'
                    f'include "{RECIPE}/files/lighttpd.conf"\n', encoding="utf-8")
    done = subprocess.run(["lighttpd", "-tt", "-f", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_it_builds_from_what_the_recipe_takes(tmp_path):
    """With OpenWrt's kind of flags, and under a compiler that warns."""
    make(RECIPE, "prepare", f"PKG_BUILD_DIR={tmp_path}")
    flags = "-Os -pipe -D_FORTIFY_SOURCE=1 -Wdeclaration-after-statement"
    asked = re.search(r"^MAKE_FLAGS\+= \\\n((?:\t.*\n)+)", (RECIPE / "Makefile").read_text(encoding="utf-8"), re.M)[1]
    arguments = [word.replace('"$(PKG_VERSION)"', "9.8.7") for word in asked.replace("\\\n", "").split()]
    done = subprocess.run(["make", "-C", tmp_path, "-j2", f"CC={os.environ.get('CC', 'gcc')}", f"CFLAGS={flags}",
                           "LDFLAGS=-Wl,-z,now", *arguments], capture_output=True, text=True, check=False,
                          env={"PATH": os.environ["PATH"], "SOURCE_DATE_EPOCH": "1700000000"})
    assert done.returncode == 0, done.stderr[-2000:]
    assert "warning" in done.stderr  # that of the flags: it stopped nothing
    program = tmp_path / "build/release-small/pennygate"
    assert "9.8.7" in subprocess.run([program, "version"], capture_output=True, text=True, check=True).stdout
    assert b"/var/run/pennygate/pennygate.conf" in program.read_bytes()
