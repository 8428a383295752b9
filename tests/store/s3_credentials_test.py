"""Where credentials come from, and that they are renewed while a program runs: doubles of the endpoints
of containers and instances, before the proxy and s3s-fs."""

import datetime
import http.server
import json
import os
import pathlib
import subprocess
import tempfile
import threading
import unittest

import servers
from fault_proxy import FaultProxy

TOOL = os.environ["ISTHMUS_STORE_TOOL"]
LOCATION = f"s3://{servers.BUCKET}/b"


class Endpoint:
    """A strict double of a credentials endpoint: answers(handler) -> (status, body)."""

    def __init__(self, answer):
        self.requests = []
        endpoint = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def handle_any(self):
                endpoint.requests.append((self.command, self.path, dict(self.headers)))
                status, body = answer(self)
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            do_GET = do_PUT = handle_any

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def keys(secret=servers.SECRET, token="", expires_in_s=3600, key_id=servers.KEY_ID):
    expires = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=expires_in_s)
    return json.dumps({"Code": "Success", "AccessKeyId": key_id, "SecretAccessKey": secret,
                       "Token": token, "Expiration": expires.strftime("%Y-%m-%dT%H:%M:%SZ")})


class CredentialsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = servers.Server("s3s-fs")

    @classmethod
    def tearDownClass(cls):
        cls.server.close()

    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="isthmus-test-")
        self.addCleanup(directory.cleanup)
        self.dir = pathlib.Path(directory.name)
        (self.dir / "content").write_text("content")
        self.proxy = FaultProxy(self.server.port)
        self.addCleanup(self.proxy.close)

    def endpoint(self, answer):
        endpoint = Endpoint(answer)
        self.addCleanup(endpoint.close)
        return endpoint

    def tool(self, *lines, **variables):
        """What the operations printed, one line each, in one process without keys in its environment."""
        environment = servers.environment(self.proxy.endpoint, STORE_LINES="1",
                                          STORE_DEADLINE_MS="20000")
        del environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"]
        done = subprocess.run([TOOL, LOCATION], env=environment | variables, text=True, check=True,
                              input="".join(line + "\n" for line in lines), capture_output=True,
                              timeout=120)
        return done.stdout.splitlines()

    def put(self, key):
        return f"put {key} {self.dir / 'content'}"

    def test_the_files_give_keys_and_a_profile(self):
        (self.dir / "credentials").write_text(
            "[default]\naws_access_key_id = WRONG\naws_secret_access_key = wrong\n"
            f"[work]\naws_access_key_id = {servers.KEY_ID}\naws_secret_access_key = {servers.SECRET}\n")
        answer = self.tool(self.put("k"), AWS_PROFILE="work",
                           AWS_SHARED_CREDENTIALS_FILE=str(self.dir / "credentials"))
        self.assertEqual(answer, ["ok "])

    def test_a_container_gives_keys_for_its_token(self):
        (self.dir / "token").write_text("let me in\n")

        def answer(request):
            if request.headers["Authorization"] != "let me in":
                return 403, ""
            return 200, keys()

        endpoint = self.endpoint(answer)
        output = self.tool(self.put("k"), "get k",
                           AWS_CONTAINER_CREDENTIALS_FULL_URI=endpoint.url + "/creds",
                           AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE=str(self.dir / "token"))
        self.assertEqual(output, ["ok ", "ok content"])
        self.assertEqual([r[:2] for r in endpoint.requests], [("GET", "/creds")])

    def test_an_instance_gives_keys_by_version_2(self):
        def answer(request):
            if request.path == "/latest/api/token":
                ttl = request.headers["X-aws-ec2-metadata-token-ttl-seconds"]
                return (200, "session") if request.command == "PUT" and ttl == "21600" else (400, "")
            if request.headers["X-aws-ec2-metadata-token"] != "session":
                return 401, ""
            roles = "/latest/meta-data/iam/security-credentials/"
            return {roles: (200, "a-role\n"), roles + "a-role": (200, keys())}.get(
                request.path, (404, ""))

        endpoint = self.endpoint(answer)
        output = self.tool(self.put("k"), AWS_EC2_METADATA_DISABLED="false",
                           AWS_EC2_METADATA_SERVICE_ENDPOINT=endpoint.url)
        self.assertEqual(output, ["ok "])
        self.assertEqual(len(endpoint.requests), 3)

    def test_keys_that_the_server_calls_expired_are_renewed_in_the_middle_of_a_run(self):
        answers = iter([keys(token="old"), keys(token="new")])
        endpoint = self.endpoint(lambda _: (200, next(answers)))

        def token(request):
            return {n.lower(): v for n, v in request.headers}.get("x-amz-security-token")

        expired = lambda r: token(r) == "old" and "/k2" in r.path
        self.proxy.on(expired, lambda e: e.error(400, "ExpiredToken"), times=10**9)
        output = self.tool(self.put("k1"), self.put("k2"), "get k2",
                           AWS_CONTAINER_CREDENTIALS_FULL_URI=endpoint.url)
        self.assertEqual(output, ["ok ", "ok ", "ok content"])
        self.assertEqual([token(r) for r in self.proxy.log], ["old", "old", "new", "new"])
        self.assertEqual(len(endpoint.requests), 2)

    def test_a_head_that_is_refused_without_a_word_renews_keys_too(self):
        answers = iter([keys(secret="rotated away"), keys()])
        endpoint = self.endpoint(lambda _: (200, next(answers)))
        self.assertEqual(self.tool("size none", AWS_CONTAINER_CREDENTIALS_FULL_URI=endpoint.url),
                         ["ok (missing)"])

    def test_keys_about_to_expire_are_asked_for_again_and_used_on_if_that_fails(self):
        calls = []

        def answer(_):
            calls.append(1)
            return (200, keys(expires_in_s=60)) if len(calls) == 1 else (500, "")

        endpoint = self.endpoint(answer)
        self.assertEqual(self.tool(self.put("k1"), "get k1",
                                   AWS_CONTAINER_CREDENTIALS_FULL_URI=endpoint.url),
                         ["ok ", "ok content"])

    def test_keys_that_stay_refused_end_in_an_error(self):
        endpoint = self.endpoint(lambda _: (200, keys(secret="wrong")))
        output = self.tool("get k", AWS_CONTAINER_CREDENTIALS_FULL_URI=endpoint.url)
        self.assertRegex(output[0], "^invalid: read k .*403 SignatureDoesNotMatch")
        self.assertNotIn("wrong", output[0])

    def test_an_endpoint_that_talks_nonsense_is_corrupt(self):
        for body in ("<html>", "x" * 100_000, "{}"):
            endpoint = self.endpoint(lambda _, b=body: (200, b))
            output = self.tool("get k", AWS_CONTAINER_CREDENTIALS_FULL_URI=endpoint.url)
            self.assertRegex(output[0], "^corrupt: ")

    def test_a_token_cannot_smuggle_a_header(self):
        endpoint = self.endpoint(lambda _: (200, keys(token="x\r\nx-smuggled: y")))
        output = self.tool("get k", AWS_CONTAINER_CREDENTIALS_FULL_URI=endpoint.url)
        self.assertRegex(output[0], "^invalid: .*x-amz-security-token has control characters")
        self.assertEqual(self.proxy.log, [])

    def test_no_keys_at_all_are_invalid(self):
        self.assertRegex(self.tool("get k")[0], "^invalid: .*find credentials for S3: none in AWS_ACC")


if __name__ == "__main__":
    unittest.main()
