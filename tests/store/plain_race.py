"""Whether a server keeps the promise of If-None-Match under a race: plain_race.py KIND.

32 plain clients create one key at once, in 20 rounds; exactly one must be told that it did. Not a test
of this project but of a server: s3s-fs 0.14.1 fails in most rounds; moto 5.2.5 looks for the key first and
stores it then, and fails rarely, on a busy machine."""

import sys
import threading

import servers

ROUNDS, CLIENTS = 20, 32


def winners(server, key):
    start = threading.Barrier(CLIENTS)
    statuses = [None] * CLIENTS

    def create(i):
        start.wait()
        statuses[i], _ = server.request("PUT", f"/{servers.BUCKET}/{key}", bytes([i]) * 1000,
                                        [("if-none-match", "*")])

    threads = [threading.Thread(target=create, args=(i,)) for i in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return statuses.count(200)


def main():
    server = servers.Server(sys.argv[1])
    try:
        wrong = sum(winners(server, f"round{i}") != 1 for i in range(ROUNDS))
    finally:
        server.close()
    print(f"{sys.argv[1]}: {wrong} of {ROUNDS} rounds had not exactly one winner")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
