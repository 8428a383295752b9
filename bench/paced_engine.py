#!/usr/bin/env python3
"""The strict double of vLLM (tests/engines), with a pace: paced_engine.py DIRECTORY --step-ms N --load-ms N …

Every --step-ms each running request gets a token, however many run; a load takes --load-ms longer
than reading the bytes. So its speed is known, and is no matter of what else this machine does.
Prints its port.
"""

import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "engines"))
import double  # noqa: E402
import fake_engine  # noqa: E402
import vllm_double  # noqa: E402


class PacedEngine(fake_engine.FakeEngine):
    def __init__(self, directory, ranks, step_s, load_s):
        self._step_s, self._load_s = step_s, load_s
        super().__init__(directory, ranks, "default")

    def load(self, directories, midway=lambda: None):
        time.sleep(self._load_s)
        super().load(directories, midway)

    def _drive(self):
        due = time.monotonic()
        while True:
            due = max(due + self._step_s, time.monotonic())
            time.sleep(due - time.monotonic() if due > time.monotonic() else 0)
            self.step()


def main():
    parser = double.arguments(__doc__)
    parser.add_argument("--enable-scale-out", action="store_true")
    parser.add_argument("--weight-transfer-backend")
    parser.add_argument("--update-info-keys", default="path")
    parser.add_argument("--step-ms", type=float, default=100)
    parser.add_argument("--load-ms", type=float, default=500)
    options = parser.parse_args()
    engine = PacedEngine(options.directory, options.ranks, options.step_ms / 1000,
                         options.load_ms / 1000)
    double.serve(vllm_double.VllmDouble(engine, options), options)


if __name__ == "__main__":
    main()
