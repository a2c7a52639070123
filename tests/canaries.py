"""Things that look like somebody's keys, in the formats of those who give them out; made here, so that none is real."""

from __future__ import annotations

import string

_HEX, _ANY, _LOUD = "0123456789abcdef", string.ascii_letters + string.digits, string.ascii_uppercase + string.digits


def _some(count, alphabet=_ANY):
    """So many characters that are no word, the same every time."""
    return "".join(alphabet[(7 * n * n + 11 * n + 5) % len(alphabet)] for n in range(count))


#: By who gives it out.
CANARIES = {
    "Artifactory": "AKC" + "p" + _some(30),
    "AWS key": "AKIA" + _some(16, _LOUD),
    "AWS role": "ASIA" + _some(16, _LOUD),
    "Azure storage": "AccountKey=" + _some(86) + "==",
    "Azure AD": "abc8Q~" + _some(34),
    "basic auth": "https://bot:" + _some(9) + "@git.example/x",
    "Discord": "M" + _some(23) + "." + _some(6) + "." + _some(27),
    "GitHub": "ghp_" + _some(36),
    "GitHub fine": "github_pat_" + _some(40),
    "GitLab": "glpat-" + _some(20),
    "GitLab runner": "glrt-" + _some(20),
    "GitLab deploy": "gldt-" + _some(20),
    "GitLab agent": "glagent-" + _some(50),
    "JWT": "eyJ" + _some(20) + ".eyJ" + _some(20) + "." + _some(20),
    "Mailchimp": _some(32, _HEX) + "-us12",
    "Mailgun": "key-" + _some(32, _HEX),
    "npm": "npm_" + _some(36),
    "OpenAI": "sk-" + _some(20) + "T3BlbkFJ" + _some(20),
    "OpenAI project": "sk-proj-" + _some(40),
    "Anthropic": "sk-ant-api03-" + _some(60),
    "PyPI": "pypi-AgEIcHlwaS5vcmc" + _some(70),
    "SendGrid": "SG." + _some(22) + "." + _some(43),
    "Slack bot": "xoxb-" + _some(12, string.digits) + "-" + _some(24),
    "Slack app": "xapp-1-" + _some(40),
    "Slack hook": "https://hooks.slack.com/services/T" + _some(8) + "/B" + _some(8) + "/" + _some(24),
    "Square": "sq0csp-" + _some(43),
    "Stripe": "sk_live_" + _some(24),
    "Stripe restricted": "rk_live_" + _some(24),
    "Stripe hook": "whsec_" + _some(32),
    "Telegram": _some(9, string.digits) + ":" + _some(35),
    "Twilio": "AC" + _some(32, _HEX),
    "Twilio key": "SK" + _some(32, _HEX),
    "Google": "AIza" + _some(35),
    "Google OAuth": "GOCSPX-" + _some(28),
    "Google access": "ya29." + _some(40),
    "Hugging Face": "hf_" + _some(34),
    "Vault": "hvs." + _some(40),
    "age": "AGE-SECRET-KEY-1" + _some(58, _LOUD),
    "Grafana cloud": "glc_" + _some(40),
    "Grafana": "glsa_" + _some(32) + "_" + _some(8, _HEX),
    "Databricks": "dapi" + _some(32, _HEX),
    "Linear": "lin_api_" + _some(40),
    "New Relic": "NRAK-" + _some(27),
    "Postman": "PMAK-" + _some(24, _HEX) + "-" + _some(34, _HEX),
    "RubyGems": "rubygems_" + _some(48, _HEX),
    "Terraform": _some(14) + ".atlasv1." + _some(60),
    "Figma": "figd_" + _some(40),
    "Doppler": "dp.pt." + _some(43),
    "PlanetScale": "pscale_tkn_" + _some(43),
    "Fly": "fm2_" + _some(60),
    "Replicate": "r8_" + _some(37),
    "Groq": "gsk_" + _some(52),
    "NVIDIA": "nvapi-" + _some(64),
    "Atlassian": "ATATT3" + _some(60),
    "Docker Hub": "dckr_pat_" + _some(27),
    "Alibaba": "LTAI" + _some(20),
    "DigitalOcean": "dop_v1_" + _some(64, _HEX),
    "Shopify": "shpat_" + _some(32, _HEX),
    "Airtable": "pat" + _some(14) + "." + _some(64, _HEX),
    "Notion": "ntn_" + _some(46),
    "Sentry": "sntrys_" + _some(60),
    "Discord hook": "https://discord.com/api/webhooks/" + _some(18, string.digits) + "/" + _some(60),
}
#: By the name that is given it: values that look like nothing.
NAMED = {
    "PGPASS": "tulip7-a",
    "MYSQL_PWD": "tulip7-b",
    "AUTH": "tulip7-c",
    "REGISTRY_AUTH": "tulip7-d",
    "DB_PASS": "tulip7-e",
    "SIGNING_KEY": "tulip7-f",
    "DATABASE_DSN": "tulip7-g",
    "SSH_PASSPHRASE": "tulip7-h",
    "SESSION_COOKIE": "tulip7-i",
}
