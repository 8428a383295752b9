"""Serves a checkpoint: python3 examples/refengine DIRECTORY [--port N] (0: any free port)."""

import argparse
import os
import sys

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # how threads cut a sum may change its last bit

import api  # noqa: E402 (numpy reads the variables when it is loaded)
import checkpoint  # noqa: E402
import engine  # noqa: E402
import http_server  # noqa: E402


def main():
    parser = argparse.ArgumentParser(prog="refengine", description=__doc__)
    parser.add_argument("directory", help="a Llama, Qwen2 or Qwen3 checkpoint")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000, help="0: any free one; it is printed")
    parser.add_argument("--served-model-name", help="default: the directory as given")
    parser.add_argument("--max-num-seqs", type=int, default=8, help="requests that run together")
    options = parser.parse_args()
    try:
        loaded = engine.Engine(options.directory, options.max_num_seqs)
    except checkpoint.CheckpointError as error:
        sys.exit(f"refengine: {error}")
    routes = api.Api(loaded, options.served_model_name or options.directory)
    server = http_server.Server(routes.handle, options.host, options.port)
    print(server.port, flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        sys.exit(130)


main()
