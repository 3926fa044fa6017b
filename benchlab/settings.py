# SPDX-License-Identifier: Apache-2.0
"""One settings file; every value that differs between installations comes from the environment (benchlab/env.py)."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from csp.constants import NONCE, NONE, SELF

from agents.ssh import reach
from benchlab import env, installation

BASE_DIR = installation.DATA

env.refuse_unknown()
DEBUG = env.flag("BENCHLAB_DEBUG")
SECRET_KEY = env.required("SECRET_KEY", "it signs sessions and tokens")
# Tells installations apart that share a Redis, or a browser: cookies are the same for all ports of a machine.
INSTALLATION = hashlib.blake2s(SECRET_KEY.encode(), digest_size=4, person=b"benchlab").hexdigest()
# Fernet keys, newest first: they encrypt private keys at rest.
BENCHLAB_KEYS = env.fernet_keys(
    env.required("BENCHLAB_KEY", "it encrypts the SSH private keys at rest")
)
ALLOWED_HOSTS = env.host_names("ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]")
CSRF_TRUSTED_ORIGINS = env.origins("CSRF_TRUSTED_ORIGINS")
CSRF_FAILURE_VIEW = "benchlab.web.errors.csrf_failure"

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "servestatic.runserver_nostatic",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "rest_framework",
    "django_filters",
    "drf_spectacular",
    "django_htmx",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.usersessions",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "template_partials",
    "csp",
    "benchlab.team",
    "benchlab.web.idempotency",
    "benchlab.audit",
    "benchlab.hosts",
    "benchlab.topologies",
    "benchlab.campaigns",
    "benchlab.runs",
    "benchlab.findings",
    "benchlab.imports",
    "benchlab.diagnosis",
    "benchlab.dynamo",
    "benchlab.charts",
    "benchlab.verdicts",
    "benchlab.sharing",
    "benchlab.lifecycle",
    "benchlab.up",
]

MIDDLEWARE = [
    "benchlab.web.middleware.observe_requests",
    "benchlab.web.middleware.ProxyHeadersMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "benchlab.web.middleware.serve_static_files",
    "benchlab.web.middleware.CompressionMiddleware",
    "csp.middleware.CSPMiddleware",
    "benchlab.web.middleware.AttachmentSandboxMiddleware",
    "benchlab.web.middleware.PrivateCacheMiddleware",
    "benchlab.web.throttling.RateLimitMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "benchlab.audit.middleware.AuditMiddleware",
    "benchlab.team.enforcement.PermissionMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "benchlab.lifecycle.middleware.DeletedRowMiddleware",
    "benchlab.web.errors.ConflictMiddleware",
]

ROOT_URLCONF = "benchlab.urls"
ASGI_APPLICATION = "benchlab.asgi.application"
WSGI_APPLICATION = "benchlab.wsgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "benchlab.team.context.may",
                "benchlab.pages.campaigns.attention.top_bar",
            ],
            "builtins": ["benchlab.charts.templatetags.si", "benchlab.web.product_tags"],
        },
    }
]

# Under ASGI each request has a thread of its own, which would keep its connection: a hundred people would take more of
# them than PostgreSQL gives, and worker and beat would find none. So a web server has a pool, and they have the rest.
POOL = env.number("BENCHLAB_POOL", 20) if "benchlab.asgi" in sys.modules else 0
DATABASES = {
    "default": env.database(env.required("DATABASE_URL", "PostgreSQL holds everything"), POOL)
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

REDIS_URL = env.redis(env.required("REDIS_URL", "Celery's broker and the live pages need it"))
CELERY_BROKER_URL = env.broker(REDIS_URL)
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": 3600,
    "unacked_restore_interval": 5,
    "unacked_restore_throttle": 1,
    "socket_keepalive": True,
}
CELERY_TASK_DEFAULT_QUEUE = f"benchlab-{INSTALLATION}"
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_TASK_IGNORE_RESULT = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_TIMEZONE = "UTC"
CELERY_BEAT_SCHEDULE = {
    # Layouts are not beat's business: each worker's sweeper (benchlab/engine/sweeper.py) looks after them.
    "drafts": {
        "task": "benchlab.imports.tasks.sweep_drafts",
        "schedule": 30.0,
        "options": {"expires": 30},
    },
    # What is found between the set-ups of a campaign, once it is over.
    "set-ups": {
        "task": "benchlab.verdicts.tasks.sweep_set_ups",
        "schedule": 30.0,
        "options": {"expires": 30},
    },
    # What explains the figures of a campaign, once its set-ups were compared.
    "diagnoses": {
        "task": "benchlab.diagnosis.tasks.sweep_campaigns",
        "schedule": 30.0,
        "options": {"expires": 30},
    },
    # What was deleted longer ago than BENCHLAB_GRACE_DAYS goes for good, a little at a time.
    "deleted": {
        "task": "benchlab.lifecycle.tasks.sweep_deleted",
        "schedule": 300.0,
        "options": {"expires": 300},
    },
    # Reports as PDF and Markdown: those that wait, and those that were kept long enough.
    "reports": {
        "task": "benchlab.sharing.tasks.sweep_reports",
        "schedule": 30.0,
        "options": {"expires": 30},
    },
    # Raw output that is older than a team's rule.
    "raw": {
        "task": "benchlab.lifecycle.tasks.sweep_raw",
        "schedule": 900.0,
        "options": {"expires": 900},
    },
}

# Attempts to log in are counted there, for all web processes together.
# One that hangs is as good as none: without these a log-in would wait for ever.
CACHE_OPTIONS = {"socket_timeout": 2, "socket_connect_timeout": 2}
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": REDIS_URL,
        "OPTIONS": CACHE_OPTIONS,
        "KEY_PREFIX": INSTALLATION,
    }
}

# what the top bar of a page tells is this old at most
TOP_BAR_S = 3.0

PASSWORD_HASHERS = [
    f"django.contrib.auth.hashers.{name}"
    # the second: of older accounts
    for name in ("Argon2PasswordHasher", "PBKDF2PasswordHasher")
]
_VALIDATORS: dict[str, dict[str, int]] = {
    "UserAttributeSimilarityValidator": {},
    "MinimumLengthValidator": {"min_length": 10},
    "CommonPasswordValidator": {},
    "NumericPasswordValidator": {},
}
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}", "OPTIONS": options}
    for name, options in _VALIDATORS.items()
]
AUTH_PASSWORD_VALIDATORS.append(
    {"NAME": "benchlab.pages.team.accounts.TokenEndingValidator", "OPTIONS": {}}
)
PASSWORD_RESET_TIMEOUT = 24 * 3600
# Accounts: allauth's pages in our look (templates/account, mfa, usersessions), by invitation only (benchlab/team).
AUTHENTICATION_BACKENDS = ["benchlab.team.backend.Backend"]
ACCOUNT_ADAPTER = "benchlab.team.adapters.AccountAdapter"
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "email", "password1*"]
ACCOUNT_EMAIL_VERIFICATION = "none"
# nobody could sign up
ACCOUNT_EMAIL_UNKNOWN_ACCOUNTS = False
ACCOUNT_EMAIL_SUBJECT_PREFIX = "[BenchLab] "
# the person says so: else the session ends with the browser
ACCOUNT_SESSION_REMEMBER = None
ACCOUNT_LOGOUT_REDIRECT_URL = "login"
ACCOUNT_FORMS = {
    "change_password": "benchlab.pages.team.accounts.ChangePassword",
    "set_password": "benchlab.pages.team.accounts.SetPassword",
}
ACCOUNT_RATE_LIMITS = {
    "login": "60/m/ip",
    # Of codes of the second factor. A lab may be behind one address.
    "login_failed": "20/5m/ip,5/5m/key",
}
# Passwords: attempts and seconds (benchlab/team/login_limits.py). They limit one address on all accounts, one address
# on one account, all strangers together on one account, and a browser in which its person logged in before.
LOGIN_FAILURES_PER_ADDRESS = (20, 300)
LOGIN_FAILURES_PER_ACCOUNT_AND_ADDRESS = (5, 300)
LOGIN_FAILURES_PER_ACCOUNT = (50, 3600)
LOGIN_FAILURES_PER_DEVICE = (5, 300)
ALLAUTH_TRUSTED_PROXY_COUNT = env.number("BENCHLAB_PROXIES", 1 if env.flag("BENCHLAB_HTTPS") else 0)
MFA_ADAPTER = "benchlab.team.adapters.SecondFactorAdapter"
MFA_SUPPORTED_TYPES = ["totp", "recovery_codes"]
MFA_TOTP_ISSUER = "BenchLab"
MFA_RECOVERY_CODES_SHOW_ONCE = True
SOCIALACCOUNT_ADAPTER = "benchlab.team.adapters.SingleSignOnAdapter"
SOCIALACCOUNT_ONLY = False
SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"APPS": env.oidc()}}
SOCIALACCOUNT_OPENID_CONNECT_URL_PREFIX = ""
SENDS_MAIL = bool(env.text("BENCHLAB_MAIL_URL"))
globals().update(env.mail(env.text("BENCHLAB_MAIL_URL")))
DEFAULT_FROM_EMAIL = env.text("BENCHLAB_MAIL_FROM", "benchlab@localhost")
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "home"
LOGOUT_REDIRECT_URL = "login"

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_I18N = False
USE_TZ = True

STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
# Where `prepare` and the container's image put them, compressed and each with a hash in its name, so that a browser
# keeps them for ever. Without it (tests, a Django command) they are served from where they lie.
BENCHLAB_STATIC = env.text("BENCHLAB_STATIC")
STATIC_ROOT = Path(BENCHLAB_STATIC or BASE_DIR / "staticfiles")
SERVESTATIC_USE_FINDERS = not BENCHLAB_STATIC
SERVESTATIC_AUTOREFRESH = DEBUG
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "servestatic.storage.CompressedManifestStaticFilesStorage"
        if BENCHLAB_STATIC
        else "django.contrib.staticfiles.storage.StaticFilesStorage"
    },
}
# without files; those: benchlab/imports/drafts.py
DATA_UPLOAD_MAX_MEMORY_SIZE = 5 * 2**20
DATA_UPLOAD_MAX_NUMBER_FILES = 2000
# an import's page has eight for each of its results
DATA_UPLOAD_MAX_NUMBER_FIELDS = 5000

SESSION_ENGINE = "benchlab.team.sessions"
SESSION_COOKIE_NAME, CSRF_COOKIE_NAME = f"sessionid-{INSTALLATION}", f"csrftoken-{INSTALLATION}"
SESSION_COOKIE_HTTPONLY = CSRF_COOKIE_HTTPONLY = True
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
if env.flag("BENCHLAB_HTTPS"):
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SECURE_SSL_REDIRECT = SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = True
    SECURE_HSTS_SECONDS = 31536000
# We answer for our own name; what else its domain serves, and with or without TLS, is not ours to say.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF, NONCE],
        # Plotly positions its heat maps and hover boxes by style attributes.
        "style-src-attr": ["'unsafe-inline'"],
        "img-src": [SELF, "data:", "blob:"],
        "connect-src": [SELF],
        "font-src": [SELF],
        # The button that logs in by OpenID Connect ends there.
        "form-action": [SELF, *(env.origin(env.text("BENCHLAB_OIDC_URL")) for _ in env.oidc())],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
        "object-src": [NONE],
    }
}

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "benchlab.team.tokens.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["benchlab.team.enforcement.TablePermission"],
    "DEFAULT_THROTTLE_CLASSES": [
        f"benchlab.web.throttling.{name}"
        for name in ("TokenThrottle", "UserThrottle", "ExportThrottle")
    ],
    "DEFAULT_RENDERER_CLASSES": ["benchlab.web.rendering.OrjsonRenderer"],
    "DEFAULT_PAGINATION_CLASS": "benchlab.web.paging.ApiPagination",
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_FILTER_BACKENDS": [
        f"benchlab.web.filters.{name}"
        for name in (
            "StrictFilterBackend",
            "LibraryFilterBackend",
            "ArchivedFilterBackend",
            "StableOrderingFilter",
        )
    ],
    "DEFAULT_SCHEMA_CLASS": "benchlab.web.schema.ProblemSchema",
    "EXCEPTION_HANDLER": "benchlab.web.api.problem_response",
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}
# Requests in a minute; 0: no limit.
BENCHLAB_API_RATES = {
    "token": env.number("BENCHLAB_API_PER_TOKEN", 1200),
    "user": env.number("BENCHLAB_API_PER_USER", 3000),
    "export": env.number("BENCHLAB_API_EXPORTS", 240),
    # On pages, too. Each may take seconds of CPU time.
    "diagnosis": env.number("BENCHLAB_DIAGNOSES", 20),
}
# Whether guests may have a text diagnosed: /diagnose/ and POST /api/diagnose/.
BENCHLAB_OPEN_DIAGNOSIS = env.flag("BENCHLAB_OPEN_DIAGNOSIS")
SPECTACULAR_SETTINGS = {
    "TITLE": "BenchLab",
    "DESCRIPTION": "Storage benchmark campaigns: hosts, topologies, campaigns, runs and their results.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "benchlab.web.schema.add_partial_rows",
        "benchlab.web.schema.add_rate_limits",
        "benchlab.rest.body_examples.add_body_examples",
    ],
    "SERVE_PERMISSIONS": ["benchlab.team.enforcement.TablePermission"],
    # Fields called phase, and fields called kind.
    "ENUM_NAME_OVERRIDES": {
        "LayoutPhase": "benchlab.runs.states.LayoutPhase",
        "AttemptPhase": "benchlab.runs.states.AttemptPhase",
        "StepKind": "benchlab.runs.models.StepLog.Kind",
        "NounKind": "benchlab.sharing.models.Kind",
        "ShareKind": "benchlab.sharing.models.Share.Kind",
    },
    **dict.fromkeys(("SWAGGER_UI_DIST", "SWAGGER_UI_FAVICON_HREF", "REDOC_DIST"), "SIDECAR"),
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {
            "()": "benchlab.logs.LineFormatter",
            "format": "{asctime} {levelname} {name} {message}",
            "style": "{",
        },
        "json": {"()": "benchlab.logs.JsonFormatter"},
    },
    "filters": {"links": {"()": "benchlab.team.log_filter.LinkFilter"}},
    "handlers": {
        "stderr": {
            "class": "logging.StreamHandler",
            "formatter": env.one_of("BENCHLAB_LOG_FORMAT", ("line", "json")),
            "filters": ["links"],
        }
    },
    "root": {"handlers": ["stderr"], "level": env.level("BENCHLAB_LOG_LEVEL", "INFO")},
    # asyncssh tells of every channel at INFO; the engine says what matters.
    # Celery tells of every step, twice.
    "loggers": {
        **{
            name: {"level": "WARNING"}
            for name in ("asyncssh", "celery.app.trace", "celery.worker.strategy", "uvicorn.access")
        },
        # The web server's own words take the same way as ours.
        **{name: {"propagate": True} for name in ("uvicorn", "uvicorn.error")},
    },
}

# What Prometheus shows at /metrics (benchlab/metrics/view.py); "": a site admin's API token is needed.
BENCHLAB_METRICS_TOKEN = env.token("BENCHLAB_METRICS_TOKEN")

# Hosts may be anywhere but here; also this server's own database could be kept from them.
BENCHLAB_FORBID_NETS = env.networks("BENCHLAB_FORBID_NETS", reach.NEVER)

# The console for dynamos that log in by themselves (benchlab/dynamo/listening.py); off unless both are set.
# address:port, as 0.0.0.0:1066
BENCHLAB_DYNAMO_LISTEN = env.text("BENCHLAB_DYNAMO_LISTEN")
# addresses or networks
BENCHLAB_DYNAMO_ALLOW = env.words("BENCHLAB_DYNAMO_ALLOW")
# whose hosts they become; the first team's
BENCHLAB_DYNAMO_TEAM = env.text("BENCHLAB_DYNAMO_TEAM")

# A file for the audit log's head, best where the database's backups do not go; "" keeps none (benchlab/audit/heads.py).
BENCHLAB_AUDIT_HEAD = env.text("BENCHLAB_AUDIT_HEAD")

# Makes PDFs of reports and pictures of their charts (benchlab/sharing/chromium.py); "" where there is none.
CHROMIUM = env.program(
    "BENCHLAB_CHROMIUM",
    # The first is the same without a browser around the page: a page and its picture in a third of the time
    ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"),
)
CHROMIUM_SANDBOX = env.flag("BENCHLAB_CHROMIUM_SANDBOX", True)

# How the engine waits. Seconds.
# what is deleted can be brought back
BENCHLAB_GRACE_DAYS = env.number("BENCHLAB_GRACE_DAYS", 14)
# one poll of a running job lasts at most this long on the host
BENCHLAB_POLL_S = 2.0
# Silence beyond a job's own limit
BENCHLAB_LOST_AFTER_S = env.number("BENCHLAB_LOST_AFTER_S", 900, 1)
