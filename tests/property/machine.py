"""A machine's clocks, and the store time that a store on it keeps."""
import pure
from hypothesis import strategies as st

T0 = 1_700_000_000_000

spans = st.one_of(st.integers(0, 3), st.integers(0, 10_000), st.integers(0, 3 * pure.DAY_MS))
steps = st.one_of(st.integers(-5, 5), st.integers(-3 * pure.HOUR_MS, 3 * pure.HOUR_MS),
                  st.integers(-3653 * pure.DAY_MS, 3653 * pure.DAY_MS))


class Machine:
    """A clock that can step, boot time that cannot, and what the store keeps."""

    def __init__(self, wall_ms=T0):
        self.wall_ms, self.boot_ms, self.boot = wall_ms, 5000, 1
        self.stored = pure.StoreTime(wall_ms, self.boot_ms, 0, 0, self.now().boot_id)

    def now(self):
        return pure.clock(self.wall_ms, self.boot_ms, self.boot)

    def time(self):
        return pure.storetime_now(self.stored, self.now())

    def write(self):
        pure.storetime_advance(self.stored, self.now())

    def wait_ms(self, until_ms):
        return pure.storetime_wait_ms(self.stored, self.now(), until_ms)

    def tick(self, ms):
        self.wall_ms += ms
        self.boot_ms += ms

    def play(self, event):
        match event:
            case ("tick", ms):
                self.tick(ms)
            case ("step", ms):
                self.wall_ms += ms
            case ("boot", up_ms, ms):
                self.wall_ms += ms
                self.boot_ms, self.boot = up_ms, self.boot + 1
            case ("write",):
                self.write()
