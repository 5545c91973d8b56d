# The server as an image: no root, no writes outside /tmp, models mounted at /models.
#
#   docker build --tag inferwire .
#   docker run --read-only --tmpfs /tmp --volume "$PWD/deploy/models:/models:ro" --publish 8000:8000 --publish 8001:8001 inferwire

ARG PYTHON_IMAGE=python:3.13-slim-bookworm


FROM ${PYTHON_IMAGE} AS build

# For a private package index: --build-arg PIP_INDEX_URL=... It stays out of the final image.
ARG PIP_INDEX_URL

# The final image has no pip: the one outside installs into this environment.
RUN python3 -m venv --without-pip /opt/inferwire

# Dependencies before sources, so that a changed line does not download OpenVINO again. OpenVINO runs without its
# usage reporting, which would write files and call out from wherever the image is deployed.
WORKDIR /src
COPY pyproject.toml ./
RUN python3 -c "import pathlib, tomllib; \
p = tomllib.loads(pathlib.Path('pyproject.toml').read_text())['project']; \
print(*p['dependencies'], *p['optional-dependencies']['server'], sep='\n')" > requirements.txt \
    && python3 -m pip --python /opt/inferwire/bin/python install --no-cache-dir --no-compile --requirement requirements.txt \
    && python3 -m pip --python /opt/inferwire/bin/python uninstall --yes openvino-telemetry

COPY README.md LICENSE NOTICE ./
COPY proto/inferwire_proto proto/inferwire_proto
COPY server/inferwire_server server/inferwire_server
COPY client/inferwire client/inferwire
COPY client/inferwire_cli client/inferwire_cli
# Bytecode that is never checked against its source starts fastest, and the source cannot change here.
RUN python3 -m pip --python /opt/inferwire/bin/python install --no-cache-dir --no-compile --no-deps . \
    && /opt/inferwire/bin/python -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/inferwire/lib


FROM ${PYTHON_IMAGE}

COPY --from=build /opt/inferwire /opt/inferwire

# HOME is where libraries look for a place to write; nothing else is writeable on a read-only root.
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
# It asks where INFERWIRE_HOST and INFERWIRE_HTTP_PORT say: of flags, which say the same to the server, it knows nothing.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python3", "-m", "inferwire_cli.health"]
ENTRYPOINT ["inferwire", "serve"]
