"""What the tests of deploy/ share: the tools of scripts/deploy_tools.sh, the chart's manifests, the program's own parser.

A test whose tool is not there is skipped; a script in which that befalls all tests exits with 77, known to CTest.
"""

import functools
import os
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
TOOLS = ROOT / ".venv-deploy"
PROGRAM = os.environ["ISTHMUS_BIN"]
SKIPPED = 77
# No option may leak in from the caller's environment.
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("ISTHMUS_")}
OLDEST_KUBERNETES = "1.29"
UNKNOWN = "--surely-no-option"

sys.path[:0] = map(str, TOOLS.glob("lib/python3*/site-packages"))
try:
    import kubernetes_validate
    import yaml
except ImportError:
    kubernetes_validate = yaml = None


def tool(name):
    return TOOLS / "bin" / name


def needs(*names):
    """A decorator for tests that need these tools, and YAML."""
    missing = [name for name in names if not tool(name).exists()] + ([] if yaml else ["PyYAML"])
    return unittest.skipIf(missing, f"scripts/deploy_tools.sh did not install {', '.join(missing)}")


def main():
    program = unittest.main(module="__main__", exit=False, verbosity=2)
    result = program.result
    if not result.wasSuccessful():
        sys.exit(1)
    whole = [test for test, _ in result.skipped if not isinstance(test, unittest.case._SubTest)]
    sys.exit(SKIPPED if whole and len(whole) == result.testsRun else 0)


def run(*command, **more):
    return subprocess.run([*map(str, command)], text=True, capture_output=True, timeout=300,
                          check=False, **more)


def helm(*arguments):
    return run(tool("helm"), *arguments, "--kube-version", f"{OLDEST_KUBERNETES}.0")


def template(*settings):
    return helm("template", "isthmus", DEPLOY / "helm/isthmus", *settings)


# The chart in the ways in which it is used.
VARIANTS = {
    "default": (),
    "autoscaling": ("--set", "autoscaling.enabled=true"),
    "tls": ("--set", "gateway.tls.secret=gateway-tls"),
    "record": ("--set", "gateway.record.location=s3://my-rollouts/grpo-7",
               "--set", "gateway.record.secret=isthmus-rollouts"),
    "no relay": ("--set", "relay.enabled=false", "--set",
                 "board.options={--s3-region,eu-central-1,--board-deadline-s,60}"),
    "all options": ("--set", "gateway.maxLag=0,board.trust=isthmus-trust,islands.storage.className=fast",
                    "--set", "gateway.options={--attempts,2,--max-queued,500},islands.options={--poll-ms,500}",
                    "--set", "relay.options={--max-connections,5000},imagePullSecrets[0].name=pull",
                    "--set", "islands.nodeSelector.gpu=h200"),
    "nothing that can be left out": ("--set", "tokens.secret=,board.secret=,networkPolicy.enabled=false"),
}


@functools.cache
def objects(variant="default"):
    done = template(*VARIANTS[variant])
    if done.returncode != 0:
        raise AssertionError(f"helm template, {variant}: {done.stderr}")
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def pod_of(thing):
    return thing.get("spec", {}).get("template", {}).get("spec")


def containers_of(pod):
    return pod.get("initContainers", []) + pod["containers"]


def is_ours(container):
    return container["image"].startswith("isthmus:")


def has_command(name):
    """Asked of the text: --help of a command that is not there is the program's, and succeeds too."""
    done = run(PROGRAM, name, "--help", env=ENVIRONMENT)
    return done.returncode == 0 and f"Usage: isthmus {name} " in done.stdout


def complaint(arguments):
    """What the program itself has against a command line; None: nothing.

    One more option, which is unknown, keeps it from running: it names all that it does not know, in
    these words after it has looked at the values of the others and found what is required.
    """
    done = run(PROGRAM, *arguments, UNKNOWN, env=ENVIRONMENT)
    if (done.returncode, done.stderr) == (2, f"isthmus: The following argument was not expected: {UNKNOWN}\n"):
        return None
    return done.stderr or f"exit {done.returncode}"
