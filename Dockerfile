# Runtime only: embedded stores, tests and linters stay out. Versions and hashes come from requirements.lock.
FROM python:3.13-slim AS build
RUN pip install --no-cache-dir uv==0.13.8
COPY pyproject.toml requirements.lock /build/
RUN uv venv /opt/venv \
 && uv pip install --python /opt/venv/bin/python --no-cache -c /build/requirements.lock -r /build/pyproject.toml

FROM python:3.13-slim
# PDFs of reports: docker build --build-arg CHROMIUM=1
ARG CHROMIUM=
RUN if [ -n "$CHROMIUM" ]; then apt-get update && apt-get install -y --no-install-recommends chromium fonts-liberation \
 && rm -rf /var/lib/apt/lists/*; fi
# A number that files may be given to: secrets are mounted as they are.
RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/benchlab benchlab
COPY --from=build /opt/venv /opt/venv
WORKDIR /app
COPY manage.py pyproject.toml LICENSE ./
COPY agents agents
COPY docs docs
COPY benchlab benchlab
COPY static static
COPY templates templates
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    DJANGO_SETTINGS_MODULE=benchlab.settings \
    BENCHLAB_NO_BOOTSTRAP=1 \
    BENCHLAB_STATE=/var/lib/benchlab \
    BENCHLAB_AUDIT_HEAD=/var/lib/benchlab/audit-head.json \
    BENCHLAB_STATIC=/app/staticfiles
# The values are used by this one command only: settings refuse to load without any.
RUN SECRET_KEY=build BENCHLAB_KEY=0000000000000000000000000000000000000000000= DATABASE_URL=postgresql:///build REDIS_URL=redis://build \
    python manage.py collectstatic --noinput
USER benchlab
EXPOSE 8000
CMD ["python", "-m", "benchlab.web.server", "--host", "0.0.0.0", "--port", "8000"]
