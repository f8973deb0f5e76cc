"""A posted file is one message, or one sentence that says what would be."""

import pytest

from interlock.protocol.envelope import BadEnvelope
from interlock.protocol.post import read_post, sender_of

MESSAGES: list[tuple[str, bytes, str, str, tuple[str, str, str | None]]] = [
    # what, content, file name, owner, (sender, to, text)
    ("a bare line", b"REQUEST loop /w why, 5m\n", "r1", "a", ("a", "coordinator", "REQUEST loop /w why, 5m")),
    ("no newline", b"RELEASE loop", "r1", "a", ("a", "coordinator", "RELEASE loop")),
    ("windows", b"\xef\xbb\xbfRELEASE loop\r\n", "r1", "a", ("a", "coordinator", "RELEASE loop")),
    ("to an agent", b"To: b\n\nhi\n\nthere\n", "x", "a", ("a", "b", "hi\n\nthere")),
    ("all headers", b"from: a\r\nTO:  b\r\nReply-To: m1\r\nid: i1\r\n\r\nhi\r\n", "x", "", ("a", "b", "hi")),
    ("a name before dashes", b"STATUS\n", "a--7.msg", "", ("a", "coordinator", "STATUS")),
    ("both say the same", b"From: a\n\nSTATUS\n", "a--7", "", ("a", "coordinator", "STATUS")),
    ("own name inside", b"From: a\n\nSTATUS\n", "x", "a", ("a", "coordinator", "STATUS")),
    ("dashes mean nothing in one's own", b"STATUS\n", "b--7", "a", ("a", "coordinator", "STATUS")),
    ("a colon is no header", b"note: this is text\n", "x", "a", ("a", "coordinator", "note: this is text")),
    ("a header's word further on", b"To: b\n\nTo: c\n", "x", "a", ("a", "b", "To: c")),
    ("empty lines at the end", b"To: b\n\nhi\n\n", "x", "a", ("a", "b", "hi\n")),
    ("SendMessage style", b'{"to": "b", "message": "hi", "summary": "s"}', "x", "a", ("a", "b", "hi")),
    ("an envelope", b'{\n "from": "a",\n "text": "STATUS"\n}\n', "x", "", ("a", "coordinator", "STATUS")),
    ("a body", b'{"body": {"type": "STATUS"}}', "x", "a", ("a", "coordinator", None)),
]  # fmt: skip


@pytest.mark.parametrize(("content", "name", "owner", "says"), [m[1:] for m in MESSAGES], ids=[m[0] for m in MESSAGES])
def test_a_file_says_who_to_whom_and_what(
    content: bytes, name: str, owner: str, says: tuple[str, str, str | None]
) -> None:
    envelope = read_post(content, name, owner)
    assert (envelope.sender, envelope.to, envelope.text) == says


def test_headers_give_the_id_and_what_is_answered() -> None:
    envelope = read_post(b"Id: i1\nReply-To: m1\nTo: b\n\nhi\n", "x", "a")
    assert (envelope.id, envelope.reply_to) == ("i1", "m1")


@pytest.mark.parametrize(
    ("content", "name", "owner", "code", "says"),
    [
        (b"", "x", "a", "BAD_MESSAGE", "is empty"),
        (b" \n\n", "x", "a", "BAD_MESSAGE", "is empty"),
        (b"\xff\xfe", "x", "a", "BAD_MESSAGE", "not UTF-8"),
        (b"{", "x", "a", "BAD_MESSAGE", "not an envelope"),
        (b"{" * 100_000, "x", "a", "BAD_MESSAGE", "nested deeper"),
        (b'{"hello": {"agent": "a"}}', "x", "a", "BAD_MESSAGE", "a hello opens a session"),
        (b'{"to": "b"}', "x", "a", "BAD_MESSAGE", "holds no message"),
        (b"To: b", "x", "a", "BAD_MESSAGE", "there is no message"),
        (b"To: b\nhi\n", "x", "a", "BAD_MESSAGE", "an empty line"),
        (b"To: b\nSubject: s\n\nhi\n", "x", "a", "BAD_MESSAGE", "Subject: is unknown"),
        (b"To: b\nTo: c\n\nhi\n", "x", "a", "BAD_MESSAGE", "stands there twice"),
        (b"To: supervisor\n\nSTATUS\n", "x", "a", "BAD_MESSAGE", "write To: coordinator"),
        (b"STATUS\n", "x", "", "BAD_MESSAGE", "From: NAME"),
        (b"STATUS\n", "../b--x", "", "BAD_MESSAGE", "is no agent name"),
        (b"From: coordinator\n\nSTATUS\n", "x", "", "BAD_MESSAGE", "is reserved"),
        (b"From: a\n\nSTATUS\n", "b--x", "", "BAD_MESSAGE", "say one sender"),
        (b"From: b\n\nSTATUS\n", "x", "a", "CAPABILITY_DENIED", "post it in your own"),
        (b'{"from": "b", "text": "STATUS"}', "x", "a", "CAPABILITY_DENIED", "post it in your own"),
        (b"x" * 65_537, "x", "a", "MESSAGE_TOO_LARGE", "at most 65536"),
        (b"x" * (1024 * 1024 + 1), "x", "a", "MESSAGE_TOO_LARGE", "at most 1048576"),
    ],
)
def test_what_is_no_message_is_said_in_one_sentence(
    content: bytes, name: str, owner: str, code: str, says: str
) -> None:
    with pytest.raises(BadEnvelope) as raised:
        read_post(content, name, owner)
    assert raised.value.refusal.code == code
    assert says in raised.value.refusal.why
    assert "\n" not in raised.value.refusal.why


@pytest.mark.parametrize(
    ("head", "name", "sender"),
    [
        (b"From: a\n\xff\xff", "x", "a"),
        (b'{"from" : "a", "text": ', "x", "a"),
        (b"\x00\x01", "a--x", "a"),
        (b"\x00\x01", "x", ""),
        (b"From: ../../etc\n", "x", ""),
        (b"From: coordinator\n", "x", ""),
    ],
)
def test_the_sender_of_what_is_no_message_is_guessed_or_nobody(head: bytes, name: str, sender: str) -> None:
    assert sender_of(head, name) == sender
