"""The store conformance suite against a real server: s3_servers_test.py KIND [GTEST ARGUMENT...].

KIND is s3s-fs or moto. ISTHMUS_STORE_TEST is the binary store_s3_test.

s3s-fs keeps objects in files, so some tests are not for it: folders are no objects but give 500, names
of its files limit keys, a bucket that does not exist is not told from a missing key, and creates that race
are all answered with success (plain_race.py shows it). moto is not strict about signatures. Each server
covers what the other one cannot.
"""

import os
import subprocess
import sys

import servers


NOT_FOR = {
    "moto": [],
    "s3s-fs": ["*MissingObjectsAreReportedAsMissing", "*TheLongestKeyIsAllowed",
               "*ABucketThatDoesNotExistIsNotFound", "*OfRacingCreatorsExactlyOneWins",
               "*OfSixtyFourCreatorsExactlyOneWinsAHundredTimes"],
}


def main():
    kind, *arguments = sys.argv[1:]
    arguments = arguments or [f"--gtest_filter=-{':'.join(NOT_FOR[kind])}"]
    server = servers.Server(kind, more=100)
    try:
        return subprocess.run([os.environ["ISTHMUS_STORE_TEST"], *arguments],
                              env=server.environment(), check=False).returncode
    finally:
        server.close()


if __name__ == "__main__":
    sys.exit(main())
