#!/usr/bin/env python3
"""Every command line of ours in deploy/ is one that the program takes: read by its own parser."""

import re
import unittest

import deployed
from deployed import DEPLOY, VARIANTS, needs

# Until the program has the command, what names it cannot be read.
GATEWAY = deployed.has_command("gateway")


class CommandsTest(unittest.TestCase):

    def check(self, arguments):
        if "gateway" in arguments[:3] and not GATEWAY:
            self.skipTest("this program has no command gateway")
        self.assertIsNone(deployed.complaint(arguments), arguments)

    def test_the_check_itself_finds_what_is_wrong(self):
        good = ["sidecar", "--board", "b", "--run", "r", "--replica", "d", "--engine", "vllm:http://h:1"]
        self.assertIsNone(deployed.complaint(good))
        for bad in (["--poll-milliseconds", "5"], ["--poll-ms", "5"], ["--policy", "drian"], ["stray"]):
            self.assertIsNotNone(deployed.complaint(good + bad), bad)
        self.assertIsNotNone(deployed.complaint(good[:-2]))

    @needs("helm")
    def test_containers_of_the_chart(self):
        commands = set()
        for variant in VARIANTS:
            for thing in deployed.objects(variant):
                for container in deployed.containers_of(deployed.pod_of(thing)) if deployed.pod_of(thing) else ():
                    if deployed.is_ours(container):
                        self.assertNotIn("command", container, "the image's entry point is the program")
                        commands.add(tuple(container["args"]))
        self.assertEqual({command[0] for command in commands}, {"gateway", "board", "pull", "sidecar"})
        for command in sorted(commands):
            with self.subTest(command=command[0]):
                self.check(list(command))

    @needs()
    def test_containers_of_the_manifests(self):
        found = 0
        for file in sorted((DEPLOY / "kubernetes").glob("*.yaml")):
            for thing in deployed.yaml.safe_load_all(file.read_text(encoding="utf-8")):
                for container in deployed.containers_of(deployed.pod_of(thing)) if deployed.pod_of(thing) else ():
                    if deployed.is_ours(container):
                        found += 1
                        with self.subTest(file=file.name, container=container["name"]):
                            self.check(container["args"])
        self.assertEqual(found, 4)

    def test_units_with_their_files_of_options(self):
        """Where a unit names /etc/isthmus/NAME.toml, the example beside it stands in."""
        units = sorted((DEPLOY / "systemd").glob("*.service"))
        self.assertEqual(len(units), 3)
        for unit in units:
            line = re.search(r"(?m)^ExecStart=/usr/bin/isthmus (.*)$", unit.read_text(encoding="utf-8"))[1]
            name = re.match(r"isthmus-(\w+)", unit.name)[1]
            file = DEPLOY / "systemd" / f"{name}.toml"
            arguments = [re.sub(r"/etc/isthmus/.*\.toml", str(file), word) for word in line.split()]
            self.assertIn(str(file), arguments)
            with self.subTest(unit=unit.name):
                if not GATEWAY and "gateway" in file.read_text(encoding="utf-8"):
                    self.skipTest("this program has no command gateway, nor options for it")
                self.check(arguments)


if __name__ == "__main__":
    deployed.main()
