"""docs/kubernetes beside docker-compose.yml: the same commands, settings, probes and fences, so that neither drifts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.exceptions import ImproperlyConfigured

from benchlab import env
from tests.up.test_containers import DOCKERFILE, OPTIONAL, SECRETS, composed

PLACE = Path(__file__).parents[2] / "docs" / "kubernetes"
OBJECTS: dict[str, list[dict[str, Any]]] = {
    path.name: list(yaml.safe_load_all(path.read_text())) for path in sorted(PLACE.glob("*.yaml"))
}
EVERY = [one for objects in OBJECTS.values() for one in objects]
SERVICES: dict[str, dict[str, Any]] = composed({})["services"]
OURS = ("migrate", "web", "worker", "beat")
STORES = ("postgres", "redis")


def named(kind: str, name: str) -> dict[str, Any]:
    (found,) = [
        one for one in EVERY if one["kind"] == kind and one.get("metadata", {}).get("name") == name
    ]
    return found


def pod(name: str) -> dict[str, Any]:
    kinds = ("Deployment", "Job", "StatefulSet")
    (found,) = [one for one in EVERY if one["kind"] in kinds and one["metadata"]["name"] == name]
    spec: dict[str, Any] = found["spec"]["template"]["spec"]
    return spec


def containers(name: str) -> list[dict[str, Any]]:
    return [*pod(name).get("initContainers", ()), *pod(name)["containers"]]


def main(name: str) -> dict[str, Any]:
    (found,) = pod(name)["containers"]
    assert found["name"] == name
    return dict(found)


def seconds(said: str) -> int:
    return int(said.removesuffix("s"))


def test_kustomize_is_given_all_files_but_the_secret():
    files = set(OBJECTS) - {"kustomization.yaml", "secret.example.yaml"}
    (told,) = OBJECTS["kustomization.yaml"]
    assert sorted(told["resources"]) == sorted(files)
    images = {one["image"] for name in OURS for one in containers(name)}
    assert images == {image["name"] for image in told["images"]} == {SERVICES["web"]["image"]}


@pytest.mark.parametrize("name", OURS)
def test_the_same_command(name):
    assert main(name).get("args") == SERVICES[name].get("command")
    assert "command" not in main(name)  # which would replace what the image begins with


@pytest.mark.parametrize("name", OURS)
def test_the_same_settings(name):
    """All that Compose gives a value by itself, and nothing that it does not know."""
    given = SERVICES[name]["environment"]
    for container in containers(name):
        sources = [next(iter(one.values()))["name"] for one in container["envFrom"]]
        assert sources == ["settings", "benchlab"] and "env" not in container
    ours = named("ConfigMap", "settings")["data"]
    assert not ours.keys() & {*SECRETS, *OPTIONAL}
    assert ours.keys() <= given.keys()
    assert {one for one, value in given.items() if value != ""} <= ours.keys()
    for place in ("DATABASE_URL", "REDIS_URL", "BENCHLAB_AUDIT_HEAD"):
        assert ours[place] == given[place]


def test_the_example_has_every_secret_and_no_value():
    secret = named("Secret", "benchlab")
    assert secret["stringData"] == dict.fromkeys((*SECRETS, *OPTIONAL), "")


@pytest.mark.parametrize("name", ["worker", "beat"])
def test_the_same_probe(name):
    health, probe = SERVICES[name]["healthcheck"], main(name)["livenessProbe"]
    assert probe["exec"]["command"] == ["sh", "-c", health["test"][1]]
    assert probe["periodSeconds"] == seconds(health["interval"])
    assert probe["initialDelaySeconds"] == seconds(health["start_period"])
    assert probe["timeoutSeconds"] == seconds(health.get("timeout", "30s"))


def test_the_web_servers_probes():
    health, web = SERVICES["web"]["healthcheck"], main("web")
    (port,) = web["ports"]
    assert port == {"name": "http", "containerPort": 8000} and "8000" in health["test"][1]
    for probe in (web["readinessProbe"], web["livenessProbe"]):
        assert probe["httpGet"] == {"path": "/healthz", "port": "http"}
        assert "/healthz" in health["test"][1]
        assert probe["periodSeconds"] == seconds(health["interval"])
        assert probe["timeoutSeconds"] == seconds(health["timeout"])
    assert web["startupProbe"]["httpGet"] == {"path": "/readyz", "port": "http"}


@pytest.mark.parametrize("name", ["web", "worker"])
def test_time_to_stop(name):
    before = main(name).get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", "0")
    asked = seconds(SERVICES[name].get("stop_grace_period", "10s"))
    assert pod(name)["terminationGracePeriodSeconds"] >= asked + int(before[-1])


@pytest.mark.parametrize("name", [*OURS, *STORES])
def test_fences(name):
    spec = pod(name)
    assert spec["automountServiceAccountToken"] is spec["enableServiceLinks"] is False
    fence = spec["securityContext"]
    assert fence["runAsNonRoot"] and fence["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in containers(name):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"cpu", "memory"} <= container["resources"]["requests"].keys()
        assert "memory" in container["resources"]["limits"]


@pytest.mark.parametrize("name", OURS)
def test_our_user_and_what_it_writes(name):
    (user,) = {
        int(found[1]) for line in DOCKERFILE if (found := re.search(r"useradd .*--uid (\d+)", line))
    }
    fence = pod(name)["securityContext"]
    assert fence["runAsUser"] == fence["runAsGroup"] == fence["fsGroup"] == user
    mounted = {one["name"]: one["mountPath"] for one in main(name)["volumeMounts"]}
    (volume,) = SERVICES[name]["volumes"]
    assert mounted == {"state": volume.partition(":")[2], "tmp": "/tmp"}
    assert {one["name"] for one in pod(name)["volumes"]} == mounted.keys()


@pytest.mark.parametrize("name", STORES)
def test_the_same_stores(name):
    assert main(name)["image"] == SERVICES[name]["image"]
    mounts = {one["mountPath"] for one in main(name)["volumeMounts"]}
    assert {one.partition(":")[2] for one in SERVICES[name]["volumes"]} <= mounts
    (port,) = {one["port"] for one in named("Service", name)["spec"]["ports"]}
    assert f"{name}:{port}/" in "".join(named("ConfigMap", "settings")["data"].values())
    if name == "redis":
        (program,) = re.findall(
            r"exec (?:\S*entrypoint\S* )?(valkey.*)", SERVICES[name]["command"][2]
        )
        assert main(name)["args"][2].endswith(f"| exec {program}")


def apps(selector: dict[str, Any]) -> set[str]:
    found = set(filter(None, [selector.get("matchLabels", {}).get("app")]))
    return found | {app for one in selector.get("matchExpressions", ()) for app in one["values"]}


def reached(name: str) -> set[str]:
    """Pods that may ask these stores or that server, by the policies."""
    return {
        app
        for one in EVERY
        if one["kind"] == "NetworkPolicy" and name in apps(one["spec"]["podSelector"])
        for rule in one["spec"].get("ingress", ())
        for whence in rule["from"]
        for app in (
            apps(whence["podSelector"])
            if "podSelector" in whence
            else whence["namespaceSelector"]["matchLabels"].values()
        )
    }


def test_who_reaches_whom():
    denied = named("NetworkPolicy", "nothing-but-names")["spec"]
    assert denied["podSelector"] == {} and set(denied["policyTypes"]) == {"Ingress", "Egress"}
    assert reached("web") == {"ingress-nginx"}
    assert reached("postgres") == reached("redis") == set(OURS)
    assert reached("worker") == reached("beat") == reached("migrate") == set()
    (rule,) = named("NetworkPolicy", "workers-to-hosts")["spec"]["egress"]
    assert rule == {"ports": [{"port": 22, "protocol": "TCP"}]}


def test_one_name_for_all():
    ingress = named("Ingress", "benchlab")["spec"]
    (rule,), (tls,) = ingress["rules"], ingress["tls"]
    assert [rule["host"]] == tls["hosts"] == [named("ConfigMap", "settings")["data"]["ALLOWED_HOSTS"]]  # fmt: skip
    backend = rule["http"]["paths"][0]["backend"]["service"]
    (port,) = named("Service", backend["name"])["spec"]["ports"]
    assert port["name"] == backend["port"]["name"]
    assert named("Deployment", "beat")["spec"]["replicas"] == 1
    assert named("Deployment", "beat")["spec"]["strategy"] == {"type": "Recreate"}


@pytest.mark.parametrize("service", ["BENCHLAB", "BENCHLAB_WEB", "BENCHLAB_0_2"])
def test_what_kubernetes_says_of_a_service_is_no_setting(service, monkeypatch):
    """By its documentation, to every pod that has service links; ours have none."""
    address = "10.96.0.7"
    said = {f"{service}_SERVICE_HOST": address, f"{service}_SERVICE_PORT": "80",
            f"{service}_SERVICE_PORT_HTTP": "80", f"{service}_PORT": f"tcp://{address}:80",
            f"{service}_PORT_80_TCP": f"tcp://{address}:80", f"{service}_PORT_80_TCP_PROTO": "tcp",
            f"{service}_PORT_80_TCP_PORT": "80", f"{service}_PORT_80_TCP_ADDR": address}  # fmt: skip
    for name, value in said.items():
        monkeypatch.setenv(name, value)
    env.refuse_unknown(said)
    monkeypatch.setenv("BENCHLAB_WEB_PORT", "80")
    with pytest.raises(ImproperlyConfigured, match="BENCHLAB_WEB_PORT"):
        env.refuse_unknown(["BENCHLAB_WEB_PORT"])


@pytest.mark.night
@pytest.mark.parametrize("version", ["1.31", "1.34", "1.37"])
def test_kubernetes_own_schemas(version):
    """Strictly: a word that it does not know is one that would be ignored."""
    schemas = pytest.importorskip(
        "kubernetes_validate", reason="pip install kubernetes-validate (100 MB of schemas)"
    )
    checked = [one for one in EVERY if one["kind"] != "Kustomization"]
    for one in checked:
        schemas.validate(one, version, strict=True)
    assert len(checked) > 15
