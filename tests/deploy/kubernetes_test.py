#!/usr/bin/env python3
"""The chart and the manifests: valid for Kubernetes, consistent in themselves, careful with privileges."""

import os
import pathlib
import subprocess
import tempfile
import unittest

import deployed
from deployed import DEPLOY, OLDEST_KUBERNETES, VARIANTS, needs, pod_of

REFUSED = {
    "islands.policy=later": "policy",
    "islands.replicas=-1": "replicas",
    "islands.replicas=many": "replicas",
    "gateway.port=80": "port",  # asks for a privilege
    "gateway.stopLimitSeconds=0": "stopLimitSeconds",
    "gateway.maxlag=3": "maxlag",  # misspelled
    "gateway.record.location=ftp://somewhere": "location",
    "run=../../etc": "run",
    "board.location=": "location",
    "tokens.secret=Not_A_Name": "secret",
    "relay.enabled=perhaps": "enabled",
}


@needs("helm")
class ChartTest(unittest.TestCase):

    def test_lint_finds_nothing(self):
        for variant, settings in VARIANTS.items():
            with self.subTest(variant=variant):
                done = deployed.helm("lint", "--strict", DEPLOY / "helm/isthmus", *settings)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a_wrong_value_is_refused_and_named(self):
        for setting, named in REFUSED.items():
            with self.subTest(setting=setting):
                done = deployed.template("--set", setting)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn("schema", done.stderr)
                self.assertIn(named, done.stderr)

    def test_an_older_kubernetes_is_refused(self):
        done = deployed.run(deployed.tool("helm"), "template", "x", DEPLOY / "helm/isthmus", "--kube-version", "1.28.0")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("1.29", done.stderr)

    def test_the_manifests_are_the_chart_s(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([DEPLOY / "kubernetes/render.sh", folder], check=True,
                           env={**os.environ, "HELM": str(deployed.tool("helm"))})
            made = {file.name: file.read_text(encoding="utf-8") for file in pathlib.Path(folder).iterdir()}
        kept = {file.name: file.read_text(encoding="utf-8") for file in (DEPLOY / "kubernetes").glob("*.yaml")}
        self.assertEqual(made, kept, "run deploy/kubernetes/render.sh deploy/kubernetes")

    def test_settings_have_the_effect_that_they_are_for(self):
        self.assertIn("--tls-certificate", self.arguments("tls", "gateway"))
        probe = self.container("tls", "gateway")["readinessProbe"]["httpGet"]
        self.assertEqual(probe["scheme"], "HTTPS")
        record = self.arguments("record", "gateway")
        self.assertEqual(record[record.index("--record") + 1], "s3://my-rollouts/grpo-7")
        self.assertEqual(self.container("record", "gateway")["envFrom"], [{"secretRef": {"name": "isthmus-rollouts"}}])
        self.assertIn("http://isthmus-relay:8090", self.arguments("default", "sidecar"))
        self.assertNotIn("envFrom", self.container("default", "sidecar"), "who reads a relay needs no keys")
        self.assertIn("s3://my-boards/team", self.arguments("no relay", "sidecar"))
        self.assertEqual(self.container("no relay", "sidecar")["envFrom"], [{"secretRef": {"name": "isthmus-board"}}])
        lag = self.arguments("all options", "gateway")
        self.assertEqual(lag[lag.index("--max-lag") + 1], "0")
        bare = self.arguments("nothing that can be left out", "gateway")
        self.assertNotIn("--client-tokens", bare)
        kinds = {thing["kind"] for thing in deployed.objects("nothing that can be left out")}
        self.assertNotIn("NetworkPolicy", kinds)

    def container(self, variant, name):
        return next(container for thing in deployed.objects(variant) if pod_of(thing)
                    for container in deployed.containers_of(pod_of(thing)) if container["name"] == name)

    def arguments(self, variant, name):
        return self.container(variant, name)["args"]


@needs("helm", "kubernetes-validate")
class ObjectsTest(unittest.TestCase):
    """All objects of all variants."""

    def each(self, kinds=None):
        for variant in VARIANTS:
            for thing in deployed.objects(variant):
                if kinds is None or thing["kind"] in kinds:
                    with self.subTest(variant=variant, kind=thing["kind"], name=thing["metadata"]["name"]):
                        yield variant, thing

    def pods(self):
        for variant, thing in self.each(("Deployment", "StatefulSet")):
            yield variant, thing, pod_of(thing)

    def test_valid_for_the_oldest_and_the_newest_kubernetes(self):
        newest = ".".join(str(deployed.kubernetes_validate.latest_version()).split(".")[:2])
        for _, thing in self.each():
            for version in (OLDEST_KUBERNETES, newest):
                deployed.kubernetes_validate.validate(thing, version, strict=True)

    def test_no_privileges(self):
        for _, _, pod in self.pods():
            self.assertIs(pod["automountServiceAccountToken"], False)
            security = pod["securityContext"]
            self.assertIs(security["runAsNonRoot"], True)
            self.assertGreater(security["runAsUser"], 0)
            self.assertEqual(security["seccompProfile"], {"type": "RuntimeDefault"})
            for container in deployed.containers_of(pod):
                self.assertEqual(container["securityContext"], {
                    "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]}})
                self.assertIn("memory", container["resources"]["limits"])
                self.assertTrue({"cpu", "memory"} <= container["resources"]["requests"].keys())
                self.assertIn("/tmp", [mount["mountPath"] for mount in container["volumeMounts"]])

    def test_what_is_mounted_is_there_and_what_is_there_is_mounted(self):
        for _, thing, pod in self.pods():
            claims = thing["spec"].get("volumeClaimTemplates", [])
            there = {volume["name"] for volume in pod["volumes"]} | {claim["metadata"]["name"] for claim in claims}
            mounted = {mount["name"] for container in deployed.containers_of(pod) for mount in container["volumeMounts"]}
            self.assertEqual(mounted, there)

    def test_files_that_arguments_name_lie_on_a_mount(self):
        for _, _, pod in self.pods():
            for container in deployed.containers_of(pod):
                paths = [word for word in container["args"] if word.startswith(("/etc/", "/srv/"))]
                for path in paths:
                    self.assertTrue(any(path.startswith(mount["mountPath"] + "/") or path == mount["mountPath"]
                                        for mount in container["volumeMounts"]), path)

    def test_there_is_time_to_drain(self):
        for _, _, pod in self.pods():
            main = pod["containers"][0]
            limit = int(main["args"][main["args"].index("--stop-limit-s") + 1])
            pause = int(main["lifecycle"]["preStop"]["exec"]["command"][1])
            self.assertGreaterEqual(pod["terminationGracePeriodSeconds"], limit + pause + 10)

    def test_the_engine_starts_before_its_sidecar_and_outlives_it(self):
        for _, _, pod in self.pods():
            if pod["containers"][0]["name"] != "sidecar":
                continue
            engine = pod["initContainers"][-1]
            self.assertEqual((engine["name"], engine["restartPolicy"]), ("engine", "Always"))
            self.assertEqual(engine["args"][engine["args"].index("--host") + 1], "127.0.0.1")
            replica = {container["name"]: container["args"] for container in deployed.containers_of(pod)}
            self.assertEqual(replica["engine"][replica["engine"].index("--model") + 1],
                             replica["sidecar"][replica["sidecar"].index("--replica") + 1])

    def test_probes_ask_routes_that_need_no_token(self):
        for _, _, pod in self.pods():
            for container in pod["containers"]:
                for kind in ("readinessProbe", "livenessProbe"):
                    self.assertIn(container[kind]["httpGet"]["path"], ("/health", "/live"))
                    self.assertEqual(container[kind]["httpGet"]["port"], container["ports"][0]["name"])

    def test_selectors_find_pods(self):
        for variant in VARIANTS:
            labels = [thing["spec"]["template"]["metadata"]["labels"] for thing in deployed.objects(variant) if pod_of(thing)]
            selected = [self.selector(thing) for thing in deployed.objects(variant)
                        if thing["kind"] in ("Service", "PodDisruptionBudget", "NetworkPolicy", "Deployment", "StatefulSet")]
            for selector in selected:
                self.assertEqual(len([entry for entry in labels if selector.items() <= entry.items()]), 1, selector)

    @staticmethod
    def selector(thing):
        spec = thing["spec"]
        chosen = spec.get("selector") or spec.get("podSelector")
        return chosen.get("matchLabels", chosen)

    def test_addresses_that_arguments_name_are_services(self):
        for variant in VARIANTS:
            services = {f"http://{thing['metadata']['name']}:{thing['spec']['ports'][0]['port']}"
                        for thing in deployed.objects(variant) if thing["kind"] == "Service"}
            for thing in deployed.objects(variant):
                for container in deployed.containers_of(pod_of(thing)) if pod_of(thing) else ():
                    for word in container["args"]:
                        if word.startswith("http://") and deployed.is_ours(container):
                            self.assertIn(word, services)

    def test_the_scaler_scales_the_islands(self):
        names = {thing["metadata"]["name"] for thing in deployed.objects("autoscaling") if thing["kind"] == "StatefulSet"}
        scaler, = [thing for thing in deployed.objects("autoscaling") if thing["kind"] == "HorizontalPodAutoscaler"]
        self.assertIn(scaler["spec"]["scaleTargetRef"]["name"], names)
        for thing in deployed.objects("autoscaling"):
            if thing["kind"] == "StatefulSet":
                self.assertNotIn("replicas", thing["spec"], "an upgrade would undo what the scaler did")


if __name__ == "__main__":
    deployed.main()
