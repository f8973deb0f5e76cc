"""What leaves this machine holds no secret, no home path and no environment; evidence stays as it is."""

import pytest

from interlock.adapters.scrubbing import GONE, scrub, scrubbed

# Made up, each in the form that its service gives out.
SECRETS = [
    ("a GitHub token", "pushed with ghp_" + "a1B2" * 9),
    ("a fine-grained one", "github_pat_" + "11AAAAAAA0" * 4),
    ("a GitLab token", "glpat-" + "x" * 20),
    ("a Slack token", "xoxb-" + "1234567890-" * 2 + "abcdefghij"),
    ("an AWS key id", "key AKIA" + "IOSFODNN7EXAMPLE"),
    ("an AWS secret", "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
    ("a Google key", "AIza" + "SyA1234567890abcdefghijklmnopqrstuv"),
    ("a model key", "sk-ant-" + "api03-abcdefghijklmnop"),
    ("a plain model key", "sk-" + "abcdefghijklmnopqrstuvwx"),
    ("a payment key", "sk_live_" + "abcdefghijklmnopqrstuvwx"),
    ("an npm token", "npm_" + "A" * 36),
    ("a PyPI token", "pypi-" + "AgEIcHlwaS5vcmcCJ" * 2),
    ("a web token", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"),
    ("a bearer", "Authorization: Bearer abcdef0123456789"),
    ("basic", "curl -H 'authorization: Basic dXNlcjpwYXNzd29yZA=='"),
    ("a password in an address", "postgres://app:hunter2@db.internal/app"),
    ("a token in an address", "https://x-access-token:hunter2@github.com/a/b"),
    ("an option", "psql --password hunter2 -h db"),
    ("an option with an equals sign", "deploy --api-key=hunter2"),
    ("a setting", "password: hunter2"),
    ("a quoted setting", '"client_secret": "hunter2 and more"'),
    ("a variable", "DB_PASSWORD=hunter2 make test"),
    ("any variable", "NODE_ENV=production make"),
    ("a private key", "-----BEGIN OPENSSH PRIVATE KEY-----\nhunter2\n-----END OPENSSH PRIVATE KEY-----"),
    ("another scheme", "Authorization: Token hunter2hunter2"),
    ("a slash in a password", "https://u:hunter2/w@host/x"),
    ("an at sign in a password", "https://u:hun@hunter2@host"),
    ("a list", '"secret":["hunter2"]'),
    ("a quote in a value", 'secret="a\\"hunter2"'),
    ("a block", "client_secret: |\n  hunter2"),
    ("a PGP key", "-----BEGIN PGP PRIVATE KEY BLOCK-----\nhunter2"),
    ("a key's body alone", ("b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzEXAMPLE" + "\n") * 3),
    ("a short name", "db_pass=hunter2"),
    ("another", "pass: hunter2"),
    ("a short option", "mysql --pass hunter2"),
    ("a Grafana token", "glsa_" + "abcdefghijklmnopqrstuvwx"),
    ("a webhook", "https://hooks.slack.com/services/T000/B000/abcdefghijklmnop"),
    ("a cookie", "Cookie: session=hunter2; theme=dark"),
    ("for curl", "curl -u bob:hunter2 https://host"),
    ("a storage key", "AccountKey=hunter2hunter2=="),
    ("an age key", "AGE-SECRET-KEY-1" + "ABCDEFGHIJAAAA" * 3),
    ("a signature", "https://host/x?sig=hunter2"),
    ("a name with something hidden in it", "to\u200bken=hunter2"),
    ("half of one", "-----BEGIN RSA PRIVATE KEY-----\nhunter2"),
]
LEFT_OUT = (
    "hunter2",
    "production",
    "EXAMPLE",
    "abcdefghij",
    "dozjgNry",
    "a1B2",
    "11AAAAAAA0",
    "dXNlcj",
    "AgEIcHl",
    "AAAA",
)
HOMES = [
    ("/home/ann/proj/report.md", "~/proj/report.md"),
    ("in /Users/ann/proj", "in ~/proj"),
    ("at /root/x and /root", "at ~/x and ~"),
    (r"C:\Users\ann\proj", r"~\proj"),
    ("file:///home/ann/x", "file://~/x"),
    ("/private/home/joe/x", "~/x"),
    ("/mnt/c/Users/joe/x", "~/x"),
    ("gcc -I/home/joe/include", "gcc -I~/include"),
    ("/var/root/x", "~/x"),
]
EVIDENCE = [
    "sha256 27dd8ed44a83ff94d557f9fd0412ed5a8cbca69ea04922d88c01184a07300a5a",
    "at commit 75c63953c06fa895337557bb2a20f574f30b65ad",
    "run-0-904df213e695: pytest ended with 1",
    "M src/auth/token_store.py",
    "the headings are right; other content is unchanged",
    "https://example.org/a/b?page=2",
    "fence 12, released",
    "a=1 b=2",
    "author: ann",
    "/srv/homes/x rooted/root.txt",
]


@pytest.mark.parametrize("text", [row[1] for row in SECRETS], ids=[row[0] for row in SECRETS])
def test_a_secret_does_not_leave(text: str) -> None:
    scrubbed_text = scrub(text)
    assert GONE in scrubbed_text
    assert not any(each in scrubbed_text for each in LEFT_OUT), scrubbed_text


@pytest.mark.parametrize(("text", "left"), HOMES)
def test_nor_does_a_home(text: str, left: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/srv/people/ann")
    assert scrub(text) == left


def test_this_home_is_known_wherever_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/srv/people/ann")
    assert scrub("/srv/people/ann/x, /srv/people/anna") == "~/x, /srv/people/anna"


@pytest.mark.parametrize("text", EVIDENCE)
def test_evidence_stays(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/srv/people/ann")
    assert scrub(text) == text


def test_every_text_of_a_document_is_looked_at() -> None:
    document = {"a": ["password: x1y2z3", {"b": "/home/ann/x"}], "n": 3, "none": None}
    assert scrubbed(document) == {"a": [f"password: {GONE}", {"b": "~/x"}], "n": 3, "none": None}


@pytest.mark.parametrize("piece", ["a", "-", "A_", "eyJ", "token", "://", "-----BEGIN ", "/home/", "--password "])
def test_no_text_takes_for_ever(piece: str) -> None:
    """Whatever is planted in a gap: a cost that grew with the square of its length would be felt here."""
    assert scrub(piece * 20_000)
