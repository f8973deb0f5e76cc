"""The grammar: what is written is read back, and whatever a purpose holds, a message stays one message."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.protocol.grammar import (
    VERBS,
    BadText,
    checked,
    format_message,
    parse,
    split_resource,
    split_time,
)
from interlock.protocol.lease_messages import AskLease, RenewLease, ReturnLease, SplitLease, TransferLease
from interlock.protocol.limits import (
    CLAIMS_MAX,
    FILES_REPORTED_MAX,
    PURPOSE_CHARACTERS_MAX,
    TASK_LIST_MAX,
    TASK_TEXT_CHARACTERS_MAX,
    TIME_DECLARED_MS_MAX,
)
from interlock.protocol.messages import (
    Cancel,
    Extend,
    Grant,
    Handover,
    Release,
    Request,
    Restart,
    Status,
    ToCoordinator,
    tag_of,
)
from interlock.protocol.task_grammar import checked_about_task, split_list
from interlock.protocol.task_messages import (
    AcceptTask,
    AssignTask,
    BeginTask,
    RejectTask,
    ReportTask,
    ToTask,
    WithdrawTask,
)
from interlock.protocol.words import quote

M = 60_000

READ: list[tuple[str, str, ToCoordinator]] = [
    ("purpose and time", "REQUEST loop /w try it, 20m", Request("loop", "/w", "try it", 20 * M)),
    ("time in words", "REQUEST loop /w tests, about 20 minutes", Request("loop", "/w", "tests", 20 * M)),
    ("no time", "REQUEST loop /w tests, all of them", Request("loop", "/w", "tests, all of them")),
    ("only the last comma counts", "REQUEST loop /w a, 5m, 20m", Request("loop", "/w", "a, 5m", 20 * M)),
    ("a time alone", "REQUEST loop /w , 20m", Request("loop", "/w", "", 20 * M)),
    ("no worktree", "REQUEST loop", Request("loop")),
    ("no purpose", "REQUEST loop -", Request("loop", "-")),
    ("a set", "REQUEST a,b - both", Request("a,b", "-", "both")),
    ("quoted worktree", "REQUEST loop '/my work/tree' x", Request("loop", "/my work/tree", "x")),
    ("double quotes", 'REQUEST loop "/my \\"w\\" tree" x', Request("loop", '/my "w" tree', "x")),
    ("escaped white space", "REQUEST loop /my\\ tree x", Request("loop", "/my tree", "x")),
    ("quotes inside a word", "REQUEST loop /my' 'tree x", Request("loop", "/my tree", "x")),
    ("an empty word", "REQUEST loop '' x", Request("loop", "", "x")),
    ("the rest is verbatim", "REQUEST loop - it's  \"here\"\nRELEASE loop\n", Request(
        "loop", "-", "it's  \"here\"\nRELEASE loop\n")),
    ("white space of the purpose stays", "REQUEST loop -   x ", Request("loop", "-", "  x ")),
    ("any case", "rEqUeSt Loop /W X", Request("Loop", "/W", "X")),
    ("white space before", " \n\t release loop", Release("loop")),
    ("a line's end after", "release loop\r\n", Release("loop")),
    ("a fence", "RELEASE loop fence=12", Release("loop", 12)),
    ("extend says what for", "EXTEND still testing, 10m", Extend("", "still testing", 10 * M)),
    ("extend says nothing", "extend", Extend()),
    ("extend a resource", "EXTEND loop, 10m", Extend("", "loop", 10 * M)),
    ("cancel", "CANCEL loop", Cancel("loop")),
    ("restart", "RESTART loop", Restart("loop")),
    ("status", "STATUS", Status()),
    ("status of one", "status loop", Status("loop")),
    ("handover", "HANDOVER loop bob", Handover("loop", "bob")),
    ("grant", "GRANT 0190 3", Grant("0190", 3)),
    ("grant without an epoch", "GRANT 0190", Grant("0190")),
    ("a lease", "LEASE /w src/** README.md:1-9 ttl=10m - login, fix", AskLease(
        ("src/**", "README.md:1-9"), "/w", "login, fix", 10 * M)),
    ("a shared one that may wait", "LEASE - a shared wait=5m name=k", AskLease(
        ("a",), shared=True, wait_ms=5 * M, name="k")),
    ("a path that reads as an option", "LEASE - ./shared './ttl=1m'", AskLease(("./shared", "./ttl=1m"))),
    ("a path with white space", "LEASE - 'a b' - x", AskLease(("a b",), purpose="x")),
    ("renew", "RENEW L3", RenewLease("L3")),
    ("renew for another time", "RENEW L3 10m", RenewLease("L3", 10 * M)),
    ("return", "return L3", ReturnLease("L3")),
    ("transfer", "TRANSFER L3 bob", TransferLease("L3", "bob")),
    ("an assignment", "ASSIGN T-1 bob changes=a,src/{x,y}/** changes=b constraint='no restarts' acceptance=green "
     "deliverable=file acceptor=cyd resources=gpu in=/w base=ab - mend it, 20m", AssignTask(
         "T-1", "bob", "mend it, 20m", ("a", "src/{x,y}/**", "b"), ("gpu",), ("no restarts",), "green", "file", "cyd",
         "/w", "ab")),
    ("begin", "begin T-1", BeginTask("T-1")),
    ("a report", "REPORT T-1 file='a b' launch=run-1 gap=none released head=ab - done", ReportTask(
        "T-1", ("a b",), ("run-1",), ("none",), "done", True, head="ab")),
    ("a report of what is handed over", "REPORT T-1 handed-over-to=bob", ReportTask("T-1", handed_to="bob")),
    ("accept", "ACCEPT T-1 despite - looks right", AcceptTask("T-1", "looks right", True)),
    ("reject", "REJECT T-1 for-good - it does not", RejectTask("T-1", "it does not", True)),
    ("withdraw", "WITHDRAW T-1 - not needed", WithdrawTask("T-1", "not needed")),
    ("split", "SPLIT L3 bob src/a.py ttl=30s - that", SplitLease("L3", "bob", ("src/a.py",), M // 2, "that")),
]  # fmt: skip

REFUSED = [
    ("nothing", "", "no message to the coordinator"),
    ("white space", " \n ", "no message to the coordinator"),
    ("an unknown verb", "PLEASE loop", "'PLEASE' is no message"),
    ("an apostrophe in chatter", "don't do that", "no message to the coordinator"),
    ("only half a verb", "REQUES loop", "no message"),
    ("no resource", "REQUEST", "a word is missing: REQUEST <resource>"),
    ("no resource to release", "RELEASE  ", "a word is missing: RELEASE <resource>"),
    ("one word too many", "CANCEL loop now", "'now' is too much"),
    ("a second line", "CANCEL loop\nRELEASE loop", "'RELEASE loop' is too much"),
    ("a second line after release", "RELEASE loop\nCANCEL loop", "is too much"),
    ("a fence that is no number", "RELEASE loop fence=x", "is too much"),
    ("a fence with 19 digits", "RELEASE loop fence=" + "1" * 19, "is too much"),
    ("an epoch that is no number", "GRANT 0190 x", "'x' is no epoch"),
    ("no duration", "LEASE - a ttl=soon", "'soon' is no duration: LEASE"),
    ("no lease", "RENEW", "a word is missing: RENEW"),
    ("a word that is no option", "ACCEPT T-1 despte - x", "'despte' is too much: ACCEPT"),
    ("an option of another verb", "REPORT T-1 changes=a", "'changes=a' is too much: REPORT"),
    ("nobody to do it", "ASSIGN T-1", "a word is missing: ASSIGN"),
    ("no agent", "HANDOVER loop", "a word is missing: HANDOVER"),
    ("an unclosed quote", "REQUEST loop '/my tree x", "is never closed: REQUEST <resource>"),
    ("an unclosed double quote", 'REQUEST "loop', "is never closed"),
    ("NUL in the verb", "STATUS\0", "NUL"),
    ("NUL in the purpose", "REQUEST loop - a\0b", "NUL"),
    ("a time over the limit", "REQUEST loop - x, 8d", "outside 1ms to 7d"),
    ("a time far over it", "REQUEST loop - x, " + "999999999d" * 40, "outside 1ms to 7d"),
]


@pytest.mark.parametrize(("text", "message"), [row[1:] for row in READ], ids=[row[0] for row in READ])
def test_a_message_is_read(text: str, message: ToCoordinator) -> None:
    assert parse(text) == message


@pytest.mark.parametrize(("text", "why"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_what_is_no_message_is_refused_with_one_sentence(text: str, why: str) -> None:
    with pytest.raises(BadText) as refused:
        parse(text)
    assert why in str(refused.value)
    assert not str(refused.value).rstrip().endswith(":")


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_read_in_any_case(verb: str) -> None:
    for said in (verb, verb.lower(), verb.title()):
        words = {
            "REQUEST": "a b",
            "HANDOVER": "a b",
            "ASSIGN": "a b - c",
            "LEASE": "- a",
            "TRANSFER": "L1 b",
            "SPLIT": "L1 b c",
        }
        assert tag_of(parse(f"{said} {words.get(verb, 'a')}")) == verb


# --- round trips --------------------------------------------------------------------------
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=60)
PIECES = ["RELEASE loop", "\n", "'", '"', "\\", ", ", ", 20m", " ", "\r\n", "\t", "🙂", "é", "\x1c", "x", "$", "`"]
NASTY = st.lists(st.sampled_from(PIECES)).map("".join)
WORD = TEXT | NASTY | st.sampled_from(["loop", "-", "/my work/tree", "'", "''", "a\\", '"$x"', "\N{NO-BREAK SPACE}"])
TIME = st.none() | st.integers(1, TIME_DECLARED_MS_MAX)
NUMBER = st.integers(0, 10**18 - 1)
SPAN = st.integers(0, TIME_DECLARED_MS_MAX)
PATHS = st.lists(WORD.filter(lambda word: word not in {"-", "shared"} and "=" not in word)).map(tuple)
LISTED = st.lists(WORD.filter(lambda word: word and not set(word) & set(",{}")), unique=True).map(tuple)
FEW = st.lists(WORD).map(tuple)
MESSAGES: st.SearchStrategy[ToCoordinator] = st.one_of(
    st.builds(Request, WORD, WORD, TEXT | NASTY, TIME).map(checked),
    st.builds(Extend, st.just(""), TEXT | NASTY, TIME).map(checked),
    st.builds(
        AssignTask,
        WORD,
        WORD,
        TEXT | NASTY,
        LISTED,
        LISTED,
        FEW,
        WORD,
        WORD,
        WORD,
        st.just("-") | WORD.filter(bool),
        WORD,
    ),
    st.builds(BeginTask, WORD),
    st.builds(
        ReportTask,
        WORD,
        FEW,
        FEW,
        FEW,
        TEXT | NASTY,
        st.booleans(),
        WORD,
        st.just("-") | WORD.filter(bool),
        head=WORD,
    ),
    st.builds(AcceptTask, WORD, TEXT | NASTY, st.booleans()),
    st.builds(RejectTask, WORD, TEXT | NASTY, st.booleans()),
    st.builds(WithdrawTask, WORD, TEXT | NASTY),
    st.builds(Release, WORD, NUMBER),
    st.builds(Cancel, WORD),
    st.builds(Restart, WORD),
    st.builds(Status, WORD.filter(bool)),
    st.just(Status()),
    st.builds(Handover, WORD, WORD),
    st.builds(Grant, WORD, NUMBER),
    st.builds(AskLease, PATHS, WORD, TEXT | NASTY, SPAN, st.booleans(), SPAN, TEXT),
    st.builds(RenewLease, WORD, SPAN),
    st.builds(ReturnLease, WORD),
    st.builds(TransferLease, WORD, WORD),
    st.builds(SplitLease, WORD, WORD, PATHS, SPAN, TEXT | NASTY),
)


@given(MESSAGES)
def test_what_is_written_is_read_back(message: ToCoordinator) -> None:
    assert parse(format_message(message)) == message


@given(WORD.filter(bool), TEXT | NASTY, TIME)
def test_an_extend_with_a_resource_is_read_back_in_two_steps(resource: str, purpose: str, time_ms: int | None) -> None:
    """Whether the first word is a resource, only the holder's holds can say: the text keeps both readings."""
    extend = checked(Extend(resource, purpose, time_ms))
    read = parse(format_message(extend))
    assert isinstance(read, Extend)
    assert read.time_ms == extend.time_ms
    assert split_resource(read.purpose) == (resource, extend.purpose)


@given(TEXT | NASTY)
def test_any_text_is_a_message_or_refused_and_never_a_crash(text: str) -> None:
    verbs = ("REQUEST", "RELEASE", "EXTEND", "GRANT", "LEASE", "ASSIGN", "ASSIGN T a", "REPORT T", "ACCEPT T", "REJECT")
    for each in (text, *(f"{verb} {text}" for verb in verbs)):
        try:
            message = parse(each)
        except BadText:
            continue
        assert parse(format_message(message)) == message


@given(TEXT | NASTY)
def test_split_time_loses_nothing_but_the_time(rest: str) -> None:
    purpose, time_ms = split_time(rest)
    assert rest == purpose if time_ms is None else rest.startswith(purpose + ",")


def test_only_a_word_that_needs_it_is_quoted() -> None:
    assert quote("/srv/über;$x") == "/srv/über;$x"
    assert quote("a b") == "'a b'"
    assert quote("") == "''"


# --- limits -------------------------------------------------------------------------------
@pytest.mark.parametrize("said", ["x", "é", "🙂", "\n"])
@pytest.mark.parametrize("before", ["REQUEST loop - ", "EXTEND "])
def test_a_purpose_at_its_limit_is_taken_and_one_more_refused_with_both_numbers(before: str, said: str) -> None:
    message = parse(before + said * PURPOSE_CHARACTERS_MAX + ", 20m")
    assert isinstance(message, Request | Extend)
    assert message.purpose == said * PURPOSE_CHARACTERS_MAX
    with pytest.raises(BadText, match=f"{PURPOSE_CHARACTERS_MAX + 1} characters, at most {PURPOSE_CHARACTERS_MAX}"):
        parse(before + said * (PURPOSE_CHARACTERS_MAX + 1))


def test_a_time_at_its_limit_is_taken_and_one_more_or_nought_refused() -> None:
    assert checked(Request("a", "-", "", TIME_DECLARED_MS_MAX)).time_ms == TIME_DECLARED_MS_MAX
    for time_ms in (TIME_DECLARED_MS_MAX + 1, 0, -1):
        with pytest.raises(BadText, match="is outside 1ms to 7d"):
            checked(Request("a", "-", "", time_ms))


def test_a_typed_message_is_brought_into_the_same_form_as_its_text() -> None:
    assert checked(Request("a", "-", "tests, 20m")) == Request("a", "-", "tests", 20 * M)
    assert checked(Request("a", "-", "tests, 20m", 5 * M)) == Request("a", "-", "tests, 20m", 5 * M)


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (AssignTask("T-1", "bob", "x" * (TASK_TEXT_CHARACTERS_MAX + 1)), "4097 characters, at most 4096"),
        (
            AssignTask("T-1", "bob", "x", constraints=("c",) * (TASK_LIST_MAX + 1)),
            "65 constraints are named",
        ),
        (AssignTask("T-1", "bob", "x", changes=("c",) * (CLAIMS_MAX + 1)), "65 paths are named, at most 64"),
        (AssignTask("T-1", "bob", ""), "the objective is empty"),
        (AssignTask("T 1", "bob", "x"), "'T 1' is no id of a task"),
        (AssignTask("a..b", "bob", "x"), "is no id of a task"),
        (BeginTask("x" * 65), "is no id of a task"),
        (ReportTask("T-1", ("f",) * (FILES_REPORTED_MAX + 1)), "257 files are named, at most 256"),
        (ReportTask("T-1", gaps=("x" * (TASK_TEXT_CHARACTERS_MAX + 1),)), "4097 characters"),
        (ReportTask("T-1", released=True, handed_to="bob"), "exclude each other"),
        (WithdrawTask("T-1", "x" * (TASK_TEXT_CHARACTERS_MAX + 1)), "4097 characters"),
    ],
)
def test_what_is_said_of_a_task_has_its_limits(message: ToTask, says: str) -> None:
    with pytest.raises(BadText, match=re.escape(says)):
        checked_about_task(message)
    most = AssignTask("T" * 64, "bob", "x" * TASK_TEXT_CHARACTERS_MAX, constraints=("c",) * TASK_LIST_MAX)
    assert checked_about_task(most) == most


@pytest.mark.parametrize(
    ("said", "read"),
    [
        (("a,b",), ("a", "b")),
        (("a", "b,a"), ("a", "b")),
        (("src/{x,y}/**,z",), ("src/{x,y}/**", "z")),
        (("},a", ""), ("}", "a")),
        (("{a,b",), ("{a,b",)),
    ],
)
def test_a_comma_separates_but_not_within_braces(said: tuple[str, ...], read: tuple[str, ...]) -> None:
    assert split_list(said) == read
