#!/usr/bin/env python3
"""The container file: well made, and what it installs and copies is what the program needs."""

import fnmatch
import pathlib
import re
import shutil
import tempfile
import unittest

import deployed
from deployed import DEPLOY, PROGRAM, ROOT, needs

FILE = DEPLOY / "container/Dockerfile"
# Of scripts/setup.sh, what the program itself is built with.
NOT_FOR_THE_PROGRAM = re.compile(r"(lib(gtest|gmock|clang-rt)|python3)\b")


def stages():
    """The text of each stage, in order."""
    return re.split(r"(?m)^FROM ", FILE.read_text(encoding="utf-8"))[1:]


def installed(stage):
    names = re.search(r"apt-get install ([^&]*)&&", stage)[1].replace("\\", " ").split()
    return {name for name in names if not name.startswith("-")}


def copy_context(target):
    """What `COPY . .` brings: the files that .dockerignore lets through."""
    rules = [line for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
             if line and not line.startswith("#")]
    for name in deployed.run("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=ROOT).stdout.split("\n"):
        kept = True
        for rule in rules:
            pattern = rule.lstrip("!").removeprefix("**/")
            matches = (fnmatch.fnmatch(name, pattern) or name.startswith(f"{pattern}/")
                       or (rule.startswith("**/") and fnmatch.fnmatch(pathlib.Path(name).name, pattern)))
            if matches:
                kept = rule.startswith("!")
        if name and kept and (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


class ContainerTest(unittest.TestCase):

    @needs("hadolint")
    def test_hadolint_finds_nothing(self):
        done = deployed.run(deployed.tool("hadolint"), "--failure-threshold", "style", FILE)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_last_stage_runs_the_program_without_privileges(self):
        last = stages()[-1]
        self.assertRegex(last, r"(?m)^USER 10001:10001$")
        self.assertRegex(last, r'(?m)^ENTRYPOINT \["/usr/bin/tini", "--", "/usr/bin/isthmus"\]$')
        self.assertFalse([name for name in installed(last) if name.endswith("-dev")])

    def test_all_libraries_that_setup_installs_are_in_the_build_stage(self):
        text = (ROOT / "scripts/setup.sh").read_text(encoding="utf-8")
        listed = re.search(r"(?s)^packages=\((.*?)^\)", text, re.M)[1].split()
        wanted = {name for name in listed if re.search(r"-dev$|^libjs-", name) and not NOT_FOR_THE_PROGRAM.match(name)}
        self.assertIn("libssl-dev", wanted)
        self.assertEqual(wanted - installed(stages()[0]), set())

    def test_all_libraries_of_the_program_are_in_the_last_stage(self):
        """As this machine's distribution names them, if it is the image's."""
        release = pathlib.Path("/etc/os-release").read_text(encoding="utf-8")
        if "VERSION_CODENAME=bookworm" not in release or not shutil.which("dpkg"):
            self.skipTest("not on the image's distribution")
        needed = re.findall(r"NEEDED\s+(\S+)", deployed.run("objdump", "-p", PROGRAM).stdout)
        paths = dict(re.findall(r"(\S+) => (\S+)", deployed.run("ldd", PROGRAM).stdout))
        packages = set()
        for library in needed:
            if library.startswith("ld-linux"):  # the loader itself, of libc6
                continue
            owner = deployed.run("dpkg", "-S", pathlib.Path(paths[library]).resolve())
            if owner.returncode != 0:  # /lib is a link to /usr/lib, which not all packages know
                owner = deployed.run("dpkg", "-S", str(pathlib.Path(paths[library]).resolve()).removeprefix("/usr"))
            packages.add(owner.stdout.split(":")[0])
        self.assertIn("libcurl4", packages)
        sanitizers = {name for name in packages if re.match(r"lib(asan|tsan|ubsan)", name)}
        always_there = {"libc6", "libgcc-s1"}
        self.assertEqual(packages - installed(stages()[-1]) - always_there - sanitizers, set())

    def test_what_is_copied_is_enough_to_configure_the_build(self):
        with tempfile.TemporaryDirectory() as folder:
            context = pathlib.Path(folder)
            copy_context(context)
            self.assertEqual(sorted(path.name for path in context.iterdir()),
                             ["CMakeLists.txt", "CMakePresets.json", "LICENSE", "isthmus", "scripts", "web"])
            self.assertFalse(list(context.rglob("*_test.cc")))
            done = deployed.run("cmake", "--preset", "release", "-DISTHMUS_PROGRAM_ONLY=ON", cwd=context)
            self.assertEqual(done.returncode, 0, done.stderr)
            planned = deployed.run("ninja", "-C", context / "build/release", "-t", "query", "isthmus")
            self.assertIn("CXX_EXECUTABLE_LINKER", planned.stdout + planned.stderr)


if __name__ == "__main__":
    deployed.main()
