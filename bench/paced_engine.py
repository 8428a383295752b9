#!/usr/bin/env python3
"""The strict double of vLLM (tests/engines), with a pace: paced_engine.py DIRECTORY --token-ms N --load-ms N …

Each running request gets a token every --token-ms from when it began, however many run; a load takes
--load-ms longer than reading the bytes. So its speed is known, and no matter of what else this machine
does. Prints its port.
"""

import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "engines"))
import double  # noqa: E402
import fake_engine  # noqa: E402
import vllm_double  # noqa: E402

TICK_S = 0.02


class PacedEngine(fake_engine.FakeEngine):
    def __init__(self, directory, ranks, token_s, load_s):
        self._load_s = load_s
        super().__init__(directory, ranks, "default", token_s)

    def load(self, directories, midway=lambda: None):
        time.sleep(self._load_s)
        super().load(directories, midway)

    def _drive(self):
        last = time.monotonic()
        while True:
            time.sleep(TICK_S)
            now = time.monotonic()
            self._grant(now - last)
            last = now

    def _grant(self, seconds):
        """So much time has passed for every request that runs."""
        with self.changed:
            if self.pause_mode not in fake_engine.STEPPING:
                return
            if self.pause_mode is None:
                self.running, self.waiting = self.running + self.waiting, []
            made = False
            for request in self.running:
                request.credit = getattr(request, "credit", 0.0) + seconds
                while request.credit >= self._token_s and not request.finish:
                    request.credit -= self._token_s
                    self._make_token(request)
                    made = True
            if made:
                self._drop_finished()


def main():
    parser = double.arguments(__doc__)
    parser.add_argument("--enable-scale-out", action="store_true")
    parser.add_argument("--weight-transfer-backend")
    parser.add_argument("--update-info-keys", default="path")
    parser.add_argument("--load-ms", type=float, default=500)
    parser.set_defaults(token_ms=100)
    options = parser.parse_args()
    engine = PacedEngine(options.directory, options.ranks, options.token_ms / 1000,
                         options.load_ms / 1000)
    double.serve(vllm_double.VllmDouble(engine, options), options)


if __name__ == "__main__":
    main()
