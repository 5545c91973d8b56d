"""Holds the documents of `deploy/` against the schemas of Kubernetes and the types of KServe's SDK: argv is the files.

Prints what is wrong with them, as a JSON list.
"""

import json
import re
import sys
from pathlib import Path

import kserve.models
import kubernetes.client.models
import kubernetes_validate
import yaml

SERVING = "serving.kserve.io/"
PLAIN = {"str": str, "int": int, "bool": bool, "float": (int, float)}
OF_ANY_TYPE = ("object", "datetime", "IntOrString")


def typed(value: object, kind: str, where: str) -> list[str]:
    """Compare a value with a type of the SDK, and what is in it; a number may be a quantity, whose type is a text."""
    if kind in OF_ANY_TYPE:
        return []
    if kind in PLAIN:
        is_quantity = kind == "str" and type(value) is int and ".resources." in where
        return [] if isinstance(value, PLAIN[kind]) or is_quantity else [f"{where} is {value!r}, expected {kind}"]
    if inner := re.fullmatch(r"[Ll]ist\[(.+)\]", kind):
        return [said for at, each in enumerate(value) for said in typed(each, inner[1], f"{where}[{at}]")]
    if inner := re.fullmatch(r"[Dd]ict[(\[]str, (.+)[)\]]", kind):
        return [said for name, each in value.items() for said in typed(each, inner[1], f"{where}.{name}")]
    known = getattr(kserve.models, kind, None) or getattr(kubernetes.client.models, kind)
    kinds = {field: known.openapi_types[name] for name, field in known.attribute_map.items()}
    unknown = [f"{where}.{field} is not known" for field in value if field not in kinds]
    fields = [(field, each) for field, each in value.items() if field in kinds]
    return unknown + [said for field, each in fields for said in typed(each, kinds[field], f"{where}.{field}")]


def kubernetes_own(document: dict) -> list[str]:
    """Compare a document with the newest schema."""
    try:
        kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)
    except kubernetes_validate.ValidationError as error:
        return [f"{document['kind']}: {error.message}"]
    return []


def problems(document: dict) -> list[str]:
    kind = document["kind"]
    if not document["apiVersion"].startswith(SERVING):
        return kubernetes_own(document)
    version = document["apiVersion"].removeprefix(SERVING)
    found = typed(document, f"{version[0].upper()}{version[1:]}{kind}", kind)
    if "containers" in (spec := document["spec"]):
        pod = {name: spec[name] for name in ("containers", "volumes")}
        found += kubernetes_own({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": pod})
    return found


documents = [document for file in sys.argv[1:] for document in yaml.safe_load_all(Path(file).read_text())]
print(json.dumps([problem for document in documents for problem in problems(document)]))
