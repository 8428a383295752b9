"""Real S3 servers for tests, from .stores (scripts/stores.sh), and a plain client of them."""

import contextlib
import datetime
import hashlib
import hmac
import http.client
import os
import pathlib
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
STORES = ROOT / ".stores"
S3S_FS = STORES / "bin" / "s3s-fs"
KEY_ID, SECRET, REGION, BUCKET = "AKIAISTHMUS", "secret/of+tests", "us-east-1", "boards"
START_LIMIT_S = 60


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for_port(port, process, host="127.0.0.1"):
    """Returns when something listens; fails if the process ends or the time is up."""
    end = time.monotonic() + START_LIMIT_S
    while True:
        try:
            socket.create_connection((host, port), timeout=1).close()
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"server on port {port} did not come up") from None
        time.sleep(0.02)  # between two polls of a bounded wait


class Server:
    """A server of one kind with an empty bucket, and `more` others, stopped by close().

    s3s-fs keeps its objects in a temporary directory in `folder`."""

    def __init__(self, kind, port=None, more=0, folder=None):
        if kind == "s3s-fs" and not S3S_FS.exists():
            raise unittest.SkipTest("no s3s-fs: scripts/stores.sh found no cargo to build it with")
        self.kind = kind
        self.port = port or free_port()
        self.directory = tempfile.TemporaryDirectory(prefix="isthmus-s3-", dir=folder)
        self.root = pathlib.Path(self.directory.name)
        self.process = None
        self.start()
        for bucket in [BUCKET, *(f"{BUCKET}{i}" for i in range(more))]:
            self.make_bucket(bucket)

    def make_bucket(self, bucket):
        if self.kind == "s3s-fs":
            (self.root / bucket).mkdir()
        else:
            status, body = self.request("PUT", f"/{bucket}")
            assert status == 200, body

    def start(self):
        if self.kind == "s3s-fs":
            command = [S3S_FS, "--access-key", KEY_ID, "--secret-key", SECRET,
                       "--host", "127.0.0.1", "--port", str(self.port), self.root]
        else:
            command = [STORES / "moto" / "bin" / "moto_server", "-H", "127.0.0.1", "-p",
                       str(self.port)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        wait_for_port(self.port, self.process)

    def stop(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        self.stop()
        self.directory.cleanup()

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.port}"

    def request(self, method, path, body=b"", headers=()):
        """One signed request; (status, body)."""
        return request(self.port, method, path, body, headers)

    def environment(self, endpoint=None):
        return environment(endpoint or self.endpoint)


def environment(endpoint, **more):
    """The caller's environment without what would lead elsewhere, and with this endpoint and keys."""
    base = {k: v for k, v in os.environ.items()
            if not k.startswith(("AWS_", "ISTHMUS_", "STORE_")) and not k.lower().endswith("_proxy")}
    return base | {"AWS_ACCESS_KEY_ID": KEY_ID, "AWS_SECRET_ACCESS_KEY": SECRET,
                   "AWS_REGION": REGION, "AWS_ENDPOINT_URL": endpoint,
                   "AWS_CONFIG_FILE": "/nonexistent", "AWS_EC2_METADATA_DISABLED": "true",
                   "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent", "ISTHMUS_TEST_S3": f"s3://{BUCKET}",
                   "ISTHMUS_BIN": os.environ.get("ISTHMUS_BIN", "")} | more


def signed_headers(host, method, path, body, headers, now=None, secret=SECRET, key_id=KEY_ID):
    """AWS Signature Version 4, written from its specification."""
    now = now or datetime.datetime.now(datetime.timezone.utc)
    stamp, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
    digest = hashlib.sha256(body).hexdigest()
    signed = {"host": host, "x-amz-date": stamp, "x-amz-content-sha256": digest} | {
        k.lower(): v for k, v in headers}
    names = ";".join(sorted(signed))
    path, _, query = path.partition("?")
    pairs = sorted(urllib.parse.parse_qsl(query, keep_blank_values=True))
    canonical = "\n".join([
        method, path, "&".join(f"{urllib.parse.quote(k, safe='-_.~')}={urllib.parse.quote(v, safe='-_.~')}"
                               for k, v in pairs),
        *(f"{k}:{signed[k]}" for k in sorted(signed)), "", names, digest])
    scope = f"{day}/{REGION}/s3/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{secret}".encode()
    for step in (day, REGION, "s3", "aws4_request"):
        key = hmac.new(key, step.encode(), hashlib.sha256).digest()
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    del signed["host"]
    return signed | {"authorization": f"AWS4-HMAC-SHA256 Credential={key_id}/{scope}, "
                                      f"SignedHeaders={names}, Signature={signature}"}


def request(port, method, path, body=b"", headers=()):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    with contextlib.closing(connection):
        connection.request(method, path, body=body,
                           headers=signed_headers(f"127.0.0.1:{port}", method, path, body, headers))
        answer = connection.getresponse()
        return answer.status, answer.read()
