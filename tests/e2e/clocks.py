"""The clocks of a machine as a site's programs see them, by clock_shim.c: the clock on the wall,
the time since the boot, and the kernel's id of the boot."""
import datetime
import shutil
import time
import uuid

from harness import ROOT

SHIM = ROOT / "build/clock-shim.so"
UTC = datetime.timezone.utc
SECOND = datetime.timedelta(seconds=1)
MILLISECOND = datetime.timedelta(milliseconds=1)


class Clocks:
    """Those of one site; real ones until they are moved."""

    def __init__(self, place):
        self.directory = place.directory
        self.file = place.directory / "offset"
        shim = shutil.copy(SHIM, place.directory)  # where its user can read it
        place.env = {**place.env, "LD_PRELOAD": shim, "CLOCK_SHIM": str(self.file)}
        self.wall_ms = self.boot_ms = 0
        self.boot_id = ""
        self._write()

    def _write(self):
        new = self.directory / "offset.new"
        new.write_text(f"{self.wall_ms} {self.boot_ms} {self.boot_id}", encoding="ascii")
        new.chmod(0o644)
        new.rename(self.file)

    def set(self, moment):
        """The wall clock; not a moment sooner: shim and rounding here lose up to two milliseconds."""
        self.wall_ms = round((moment - datetime.datetime.now(UTC)) / MILLISECOND) + 2
        self._write()

    def boot(self, moment, uptime=10 * SECOND):
        """Another boot, so long ago. Processes of the old one must be gone."""
        now_ms = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000000
        self.boot_ms = round(uptime / MILLISECOND) - now_ms
        self.boot_id = str(uuid.uuid4())
        self.set(moment)

    def boot_back(self, by):
        """Only what the kernel says of the time since the boot, which it never does."""
        self.boot_ms -= round(by / MILLISECOND)
        self._write()

    def forget_boot_id(self):
        """Until the next `boot` it cannot be read."""
        self.boot_id = "-"
        self._write()

    def go_on(self, by):
        """Time passes, or the machine was asleep: both clocks go on."""
        self.wall_ms += round(by / MILLISECOND)
        self.boot_ms += round(by / MILLISECOND)
        self._write()

    def now(self):
        return datetime.datetime.now(UTC) + self.wall_ms * MILLISECOND
