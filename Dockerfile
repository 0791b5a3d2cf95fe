# SPDX-License-Identifier: Apache-2.0
# How is the server packed? One wheel and its locked libraries in a slim image, run by a user of its own.
#
# Works with a read-only root: only /var/lib/pratique is written (and /dev/shm, by gunicorn's workers).

ARG PYTHON=3.13-slim

# ---------------------------------------------------------------- builder

FROM python:${PYTHON} AS builder
WORKDIR /source

# The tools come from the lock file, digests checked; this layer is kept until the lock changes.
COPY requirements.lock ./
RUN python -m venv /tools \
    && /tools/bin/python -m pip install --no-cache-dir --disable-pip-version-check \
        --require-hashes --requirement requirements.lock

COPY pyproject.toml LICENSE README.md ./
COPY registry registry
COPY api api
COPY migrations migrations
COPY deploy/bootstrap.sh deploy/
RUN /tools/bin/python -m build --wheel --no-isolation --outdir /wheels

# uv checks the digests of what it takes from a constraints file, so the server's extra comes from the same lock.
RUN /tools/bin/uv venv --python "$(command -v python)" /opt/pratique \
    && /tools/bin/uv pip install --no-cache --python /opt/pratique/bin/python --compile-bytecode \
        --constraints requirements.lock "$(ls /wheels/pratique-*.whl)[server]"

# ---------------------------------------------------------------- the image

FROM python:${PYTHON}

RUN groupadd --gid 10001 pratique \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin pratique \
    && install --directory --owner=10001 --group=10001 --mode=0700 /var/lib/pratique

COPY --from=builder /opt/pratique /opt/pratique

ENV PATH=/opt/pratique/bin:$PATH \
    PRATIQUE_DATA_DIR=/var/lib/pratique \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1

USER 10001:10001
WORKDIR /var/lib/pratique
VOLUME /var/lib/pratique
EXPOSE 8080

HEALTHCHECK --interval=10s --timeout=3s --start-period=20s --retries=3 \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8080/health/live', timeout=2)"]

ENTRYPOINT ["pratique"]
CMD ["serve", "--bind", "0.0.0.0:8080"]
