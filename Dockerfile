# An image of the server. It does not run as root, writes only to /tmp (and /cache, if told to), and expects the models at
# /models.
#
#   docker build --tag inferwire .
#   docker run --read-only --tmpfs /tmp:size=1g --stop-timeout 40 --volume "$PWD/deploy/models:/models:ro" \
#       --publish 127.0.0.1:8000:8000 --publish 127.0.0.1:8001:8001 inferwire
#
# Without a time, `docker stop` waits for ten seconds, and kills a server that lets running work finish (--grace-s, 30).
#
# With `--volume inferwire-cache:/cache`, and `--cache-dir /cache` after the image's name, it keeps compiled models and
# starts faster. What else to know of what is mounted is in docs/containers.md.
#
# Podman keeps the health check only with `podman build --format docker`.
#
# /tmp is in memory, and is where uploaded models are. Without a size it may take half of the host's memory, whatever the
# container's limit. If you allow uploads, make it as large as they may be together.
#
# Published like this, the ports can be reached from this machine only. Before you publish them to others, give the server
# a certificate and API keys: docs/security.md says how.
#
# A later build takes the base image and the packages that are the newest by then, as far as pyproject.toml allows them. To
# build the same again, name the base image by its digest (--build-arg PYTHON_IMAGE=python@sha256:...) and the packages in
# a file of constraints, at a URL (--build-arg PIP_CONSTRAINT=https://...). This writes those of an image that you tested:
#
#   docker run --rm --entrypoint python3 inferwire -c \
#       'from importlib.metadata import *; print(*(f"{d.name}=={d.version}" for d in distributions()), sep="\n")' \
#       | grep -v ^inferwire= > constraints.txt

ARG PYTHON_IMAGE=python:3.13-slim-bookworm


FROM ${PYTHON_IMAGE} AS packages

# To install from a private package index, build with --build-arg PIP_INDEX_URL=... The final image does not contain it.
ARG PIP_INDEX_URL
ARG PIP_CONSTRAINT

# The environment has no pip of its own. That of the base image installs into it.
RUN python3 -m venv --without-pip /opt/inferwire

# The packages are a stage and a layer of their own: a change in the sources neither downloads OpenVINO again, nor has
# those who have the image pull it again.
# OpenVINO's usage reporting (openvino-telemetry) is removed: it would write files, and send data out from wherever the
# image is deployed. OpenVINO runs without it.
# Python does not check this bytecode against its source, so the server starts faster. The source in an image does not
# change.
#
# What the image can do depends on the extras of pyproject.toml: for models that take text, build with
# --build-arg EXTRAS=server,tokenizers.
ARG EXTRAS=server
WORKDIR /src
COPY pyproject.toml ./
RUN python3 -c "import os, pathlib, tomllib; \
p = tomllib.loads(pathlib.Path('pyproject.toml').read_text())['project']; \
extras = [p['optional-dependencies'][name] for name in os.environ['EXTRAS'].split(',')]; \
print(*p['dependencies'], *sum(extras, []), sep='\n')" > requirements.txt \
    && python3 -m pip --python /opt/inferwire/bin/python install --no-cache-dir --no-compile --requirement requirements.txt \
    && python3 -m pip --python /opt/inferwire/bin/python uninstall --yes openvino-telemetry \
    && python3 -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/inferwire/lib


FROM packages AS build

# BuildKit alone hands them down from one stage to the next.
ARG PIP_INDEX_URL
ARG PIP_CONSTRAINT

COPY README.md LICENSE NOTICE ./
COPY proto/inferwire_proto proto/inferwire_proto
COPY server/inferwire_server server/inferwire_server
COPY client/inferwire client/inferwire
COPY client/inferwire_cli client/inferwire_cli
RUN python3 -m pip --python /opt/inferwire/bin/python install --no-cache-dir --no-compile --no-deps --prefix /build . \
    && python3 -m compileall -q -j 0 --invalidation-mode unchecked-hash -s /build -p /opt/inferwire /build/lib


FROM ${PYTHON_IMAGE}

# Python's own image has no bytecode of its library, and whoever is not root can keep none: without this, the server and
# each health check would compile anew what they import of it, a second or two of a core and a third of one.
RUN python3 -m compileall -q -j 0 --invalidation-mode unchecked-hash -x /site-packages/ \
    "$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')"

# A new volume gets the owner and the mode of the folder that it is mounted over. Where there is none, it is root's, and
# the server could keep nothing there. Users of any number are in group 0 where a platform chooses them, as OpenShift.
RUN mkdir --mode 770 /cache && chown 10001:0 /cache

COPY --from=packages /opt/inferwire /opt/inferwire
COPY --from=build /build /opt/inferwire

# Libraries that write files do so in HOME. With a read-only root file system, /tmp is the only place they can write to.
ENV PATH=/opt/inferwire/bin:$PATH \
    HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    INFERWIRE_HOST=0.0.0.0 \
    INFERWIRE_MODEL_REPOSITORY=/models

WORKDIR /tmp
EXPOSE 8000 8001
USER 10001:10001
STOPSIGNAL SIGTERM
# The health check takes the address from INFERWIRE_HOST and INFERWIRE_HTTP_PORT. It does not see the server's flags, so
# set these two as variables and not as --host and --http-port. It imports nothing from the folder it runs in (-P): others
# may write to /tmp if it is shared with them.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python3", "-P", "-m", "inferwire_cli.health"]
ENTRYPOINT ["inferwire", "serve"]
