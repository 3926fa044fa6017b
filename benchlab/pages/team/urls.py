# SPDX-License-Identifier: Apache-2.0
"""Accounts (allauth's views under our addresses), teams, invitations, and the site admin's pages."""

from __future__ import annotations

from allauth.account import views as account
from allauth.mfa.base import views as mfa
from allauth.mfa.recovery_codes import views as recovery_codes
from allauth.mfa.totp import views as totp
from allauth.socialaccount import views as social
from allauth.socialaccount.providers.openid_connect import views as oidc
from django.contrib.auth.decorators import login_not_required
from django.urls import path, register_converter
from django.urls.converters import StringConverter

from benchlab.pages.team import accounts, teams


class Base36(StringConverter):
    """Without a dash: what follows it has one."""

    regex = "[0-9A-Za-z]+"


register_converter(Base36, "base36")
urlpatterns = [
    path("login/", account.login, name="login"),
    # allauth's word for it
    path("login/", account.login, name="account_login"),
    path("logout/", account.logout, name="logout"),
    path("logout/", account.logout, name="account_logout"),
    path("account/", accounts.account_page, name="account"),
    path("account/email/", accounts.change_email, name="account-email"),
    path("account/inactive/", account.account_inactive, name="account_inactive"),
    path("account/again/", account.reauthenticate, name="account_reauthenticate"),
    path("account/password/", account.password_change, name="account_change_password"),
    path("account/password/set/", account.password_set, name="account_set_password"),
    path("account/reset/", account.password_reset, name="account_reset_password"),
    path("account/reset/sent/", account.password_reset_done, name="account_reset_password_done"),
    path(
        "account/reset/<base36:uidb36>-<str:key>/",
        account.password_reset_from_key,
        name="account_reset_password_from_key",
    ),
    path(
        "account/reset/done/",
        account.password_reset_from_key_done,
        name="account_reset_password_from_key_done",
    ),
    path("account/sessions/", accounts.session_list, name="usersessions_list"),
    path("account/second-factor/", mfa.index, name="mfa_index"),
    path("account/second-factor/code/", mfa.authenticate, name="mfa_authenticate"),
    path("account/second-factor/again/", mfa.reauthenticate, name="mfa_reauthenticate"),
    path("account/second-factor/set-up/", totp.activate_totp, name="mfa_activate_totp"),
    path("account/second-factor/remove/", totp.deactivate_totp, name="mfa_deactivate_totp"),
    path(
        "account/second-factor/recovery/",
        recovery_codes.view_recovery_codes,
        name="mfa_view_recovery_codes",
    ),
    path(
        "account/second-factor/recovery/new/",
        recovery_codes.generate_recovery_codes,
        name="mfa_generate_recovery_codes",
    ),
    # /account/single-sign-on/: only of use with BENCHLAB_OIDC_URL
    path("account/single-sign-on/", social.connections, name="socialaccount_connections"),
    path("account/single-sign-on/new/", social.signup, name="socialaccount_signup"),
    path(
        "account/single-sign-on/cancelled/",
        social.login_cancelled,
        name="socialaccount_login_cancelled",
    ),
    path(
        "account/single-sign-on/error/",
        login_not_required(social.login_error),
        name="socialaccount_login_error",
    ),
    path("account/<slug:provider_id>/login/", oidc.login, name="openid_connect_login"),
    path(
        "account/<slug:provider_id>/login/callback/", oidc.callback, name="openid_connect_callback"
    ),
    path("team/", teams.team_list, name="team-list"),
    path("team/choose/", teams.team_choose, name="team-choose"),
    path("team/<int:pk>/", teams.team_detail, name="team-detail"),
    path("team/<int:pk>/change/", teams.team_change, name="team-change"),
    path("team/<int:pk>/leave/", teams.team_leave, name="team-leave"),
    path("team/<int:pk>/invite/", teams.team_invite, name="team-invite"),
    path(
        "team/<int:pk>/invitations/<int:invitation_pk>/revoke/",
        teams.invitation_revoke,
        name="team-invitation-revoke",
    ),
    path(
        "team/<int:pk>/members/<int:member_pk>/role/",
        teams.member_change_role,
        name="team-member-role",
    ),
    path(
        "team/<int:pk>/members/<int:member_pk>/remove/",
        teams.member_remove,
        name="team-member-remove",
    ),
    path("join/<str:token>/", teams.join, name="join"),
    path("site/users/", teams.site_users, name="site-users"),
    path("site/users/<int:user_pk>/active/", teams.set_active, name="site-user-active"),
    path("site/users/<int:user_pk>/reset/", teams.reset_link, name="site-user-reset"),
    path("site/users/<int:user_pk>/factor/", teams.remove_second_factor, name="site-user-factor"),
    path("site/teams/", teams.site_teams, name="site-teams"),
    path("site/teams/<int:team_pk>/owner/", teams.invite_owner, name="site-team-owner"),
]
