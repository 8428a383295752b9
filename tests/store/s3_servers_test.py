"""The store conformance suite against a real server: s3_servers_test.py KIND [GTEST ARGUMENT...].

KIND is s3s-fs or moto. ISTHMUS_STORE_TEST is the binary store_s3_test."""

import os
import subprocess
import sys

import servers


def main():
    kind, *arguments = sys.argv[1:]
    server = servers.Server(kind)
    try:
        return subprocess.run([os.environ["ISTHMUS_STORE_TEST"], *arguments],
                              env=server.environment(), check=False).returncode
    finally:
        server.close()


if __name__ == "__main__":
    sys.exit(main())
