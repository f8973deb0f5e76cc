"""Every bound on the bus, each with its reason. A new number goes here, nowhere else."""

# --- what may be sent ---------------------------------------------------------------------
MESSAGE_BYTES_MAX = 64 * 1024  # UTF-8; longer things belong in a file that the message names
FRAME_BYTES_MAX = 1024 * 1024  # one line on a stream door; a longer one is a broken or hostile peer
PURPOSE_CHARACTERS_MAX = 1024  # people read it in a list
DEPTH_MAX = 32  # nesting of JSON: nothing on the bus is deeper than four

# --- names --------------------------------------------------------------------------------
AGENT_NAME_CHARACTERS_MAX = 64
RESOURCE_NAME_CHARACTERS_MAX = 64
REPOSITORY_ID_CHARACTERS_MAX = 128
RESOURCE_KEY_CHARACTERS_MAX = 256
ID_CHARACTERS_MAX = 64  # of a message; a UUID has 36
NAMES_COMPARED_MAX = 1_000  # to find the nearest: all of 65,536 would hold up everybody for a second
NEAREST_NAMES_MAX = 3  # how many "did you mean" are worth reading

# --- resources ----------------------------------------------------------------------------
QUEUE_TICKETS_MAX = 16_384  # the newcomer is refused past it, never one already queued
RESOURCES_DECLARED_MAX = 256
RESOURCES_LIVE_MAX = 65_536  # keys with an owner, a queue or a deadline
UNITS_MAX = 64  # a larger pool is a cluster, and wants a scheduler
TOGETHER_MAX = 16  # resources of one REQUEST: each of them is looked at in every step that serves the others
PASSES_MAX = 8  # then a set blocks its queues: nobody waits for ever because others need less
ENDED_TICKETS_KEPT = 256  # a resource remembers so many ended tickets, to answer a retried id truly
LOST_HOLDS_KEPT = 1_024  # and so many agents, to say when and why each lost it
ARRIVALS_KEPT = 1_024  # and so many agents whose `bus run` gave up its place a moment ago
POLLS_UNANSWERED_MAX = 2  # then REVOKED
CLAIMS_MISSED_MAX = 3  # then the absent agent's ticket is cancelled
DOUBT_TOLD_MAX = 128  # waiters that are told of RECOVERY_REQUIRED at once; the others see it when they look
LATE_MS = 1_000  # a deadline handled later than this was slept through: one fresh interval
ARRIVAL_REMEMBERED_MS = 2 * 60_000  # a `bus run` that gave up keeps its place so long
TIME_DECLARED_MS_MAX = 7 * 24 * 3_600_000  # a longer declared time is a typing error

# --- inboxes ------------------------------------------------------------------------------
INBOXES_MAX = 70_000  # more than there can be agents: some are of names that are forgotten, and go together
UNREAD_MAX = 4_096  # an inbox; the coordinator's own are bounded by type and resource instead
ACKED_KEPT = 256  # read messages kept in memory for `--last` and receipts; older ones are in the log
INBOX_MESSAGES_A_CALL = 20  # what a model reads in one turn
INBOX_BYTES_A_CALL = 8 * 1024
NOTICES_A_COMMAND = 3  # lines of unread news before a command's own output

# --- inbox folders ------------------------------------------------------------------------
POST_BYTES_MAX = FRAME_BYTES_MAX  # a posted file: a message whose every byte JSON writes as six, and room
SCAN_MS = 2_000  # a folder in use is looked through this often, whatever the notifications say
HALF_WRITTEN_MS = 60_000  # written in place and still without its last newline: nobody writes it any more
POSTS_A_LOOK = 4_096  # files of one folder that are looked at together, the oldest first: memory stays bounded
POSTS_AT_ONCE = 32  # of one sender on their way: the next sender has its turn
POST_TRIES_MAX = 10  # looks at a full mailbox or inbox before its sender is told
ANSWERS_KEPT = 16_384  # direct answers, read files and rejected ones in one folder, then the oldest go
RELAYS_MAX = 256  # streams over files at once: each costs three open files
RELAYS_OF_ONE_MAX = 32  # of these, through one agent's own folder: the other sandboxes keep theirs
RELAY_BYTES_MAX = 64 * 1024 * 1024  # one way of one stream, then it begins anew

# --- flow ---------------------------------------------------------------------------------
MESSAGES_A_SECOND = 1_000  # an agent
MESSAGES_BURST = 5_000
MESSAGES_A_SECOND_TO_ONE = 10  # an agent, into any one other agent's inbox
MESSAGES_BURST_TO_ONE = 100
MAILBOX_MESSAGES_MAX = 20_000  # an actor: all 16,384 waiters may speak at once, with room to spare
MAILBOX_RESERVED = 2_048  # of these, for the timer, steps, the watcher, RELEASE, EXTEND and CANCEL
IDS_REMEMBERED = 65_536  # recent message ids that are never done again …
IDS_SLACK = 4_096  # … and how many more may be, before the oldest are forgotten together
SESSION_CUT_MS = 10_000  # a cut session is unknown for so long, then gone; a bus is up again in two or three seconds
EXPIRED_A_STEP = 512  # cut sessions that are over, in one record of some 60 KB; the next follow at once
AGENTS_MAX = 65_536  # names known to the registry; gone and idle ones make room

# --- territory ----------------------------------------------------------------------------
PATTERN_CHARACTERS_MAX = 4_096  # the longest path of Linux
PATTERN_ALTERNATIVES_MAX = 64  # what `{a,b}` of one pattern stand for: each is compared with each of the other's
PATTERN_EXPANDED_CHARACTERS_MAX = 8_192  # of all of them: two of the longest paths
PATTERN_WILDCARDS_MAX = 64  # of one alternative: nobody reads more
PATTERNS_KEPT = 8_192  # parsed ones, and pairs that were compared: a claim is looked at many times
CLAIMS_MAX = 64  # of one lease: who needs more wants a directory
LINE_MAX = 999_999_999  # of a file; ten digits and more are a typing error

# --- journal ------------------------------------------------------------------------------
RECORD_BYTES_MAX = 512 * 1024  # one group commit
SNAPSHOT_EVERY_RECORDS = 4_096  # replay stays well under a second
SNAPSHOT_EVERY_BYTES = 16 * 1024 * 1024
NUMBERS_RESERVED = 100_000  # events whose numbers one write of the high-water mark covers: days of agents' work
VERIFIED_ROWS_A_CALL = 64  # of the chain, so that nobody else waits for a check
TAIL_RECORDS_A_READ = 32  # a follower reads so many, then lets others

# --- the gate -----------------------------------------------------------------------------
PARTICIPANTS_MAX = 256  # of one policy: every one of its commands is looked up among them
POLICIES_MAX = 1_024  # each is an operator's word
TICKETS_TOLD_MAX = 128  # waiting ones that a new policy's controller is told of at once; status shows all
BLOCKERS_TOLD_MAX = 16  # that a resource is told of: while there is one it grants nothing, and each end is on record
COMMANDS_MAX = 16_384  # managed at once: each is a process tree of this machine
PORTS_OF_A_RANGE_MAX = 1_024  # of lsof: whoever ends what is at more of them is told to say which
COMMAND_DEPTH_MAX = 32  # shells within shells, and wrappers around wrappers: nobody writes so many
COMMAND_LOOKED_AT = 256 * 1024  # characters and words, over all levels of one command: then it counts as a build
BUILD_PATTERNS_MAX = 64  # that one file adds to the build profile
INSIDE_MAX = 64  # launches that one is started in: nobody nests commands deeper by hand
HOLDS_MAX = 64  # resources of one command: all of them are asked, one after the other
DIGEST_CHARACTERS_MAX = 128  # of a command: a SHA-512 in hex

# --- territory ----------------------------------------------------------------------------
LEASE_TTL_MS = 2 * 60_000  # an agent that has died without a trace holds others up no longer
LEASE_TTL_MS_MIN = 10_000  # shorter ones would be renewed by those who do nothing else
LEASE_TTL_MS_MAX = 24 * 3_600_000  # a longer one is a person's absence
LEASES_MAX = 131_072  # of one repository, in force
LEASES_WAITING_MAX = 16_384  # the newcomer is refused past it
LEASES_WAITING_OF_AGENT_MAX = 256  # an agent is not in its own way, so each of its waits looks past all the others
LEASES_ENDED_KEPT = 1_024  # to say when and why each was lost
LEASE_NAME_CHARACTERS_MAX = 128  # an agent's own name for a lease
LEASE_WAIT_MS_MAX = 24 * 3_600_000  # in the queue
LEASES_A_PAGE = 256  # some 200 KB in one answer
LEASED_FILE_BYTES_MAX = 8 * 1024 * 1024  # of which lines are claimed: a larger one's are kept as numbers alone
MAP_LEASES_MAX = 1_024  # that a map shows; more is no map that anybody reads, and the rest is counted
MAP_ROWS_AT_ONCE = 64  # of a map, before the bus looks after others: a few ms
TERRITORIES_MAX = 1_024  # repositories: each is one of this machine
BEHIND_TOLD_MAX = 8  # leases in the way that are named; the others are counted up to …
BEHIND_COUNTED_MAX = 256  # … so many: a claim of everything overlaps all there are
BEHIND_LOOKED_AT = 32_768  # leases compared for one map: some 100 ms, in pieces, however many wait for everything
DEADLOCK_LOOKED_AT = 1_024  # waiting leases that are followed to see whether agents wait for each other in a ring
PAIRS_MAX = 10**9  # of a commit and a path, that one verification counts
COMMITS_KEPT = 4_096  # of which hooks have said whose they are; older ones are in the log
HOT_PATTERNS_KEPT = 256  # patterns that were waited for
HOT_WAITS_KEPT = 64  # and so many times of each: more in an hour is hot enough
WAITS_KEPT = 512  # waits for leases, of which the middle and the long ones are told

# --- tasks --------------------------------------------------------------------------------
TASKS_MAX = 4_096  # that are not over: more is a backlog, which wants a tracker
TASKS_OVER_KEPT = 1_024  # to show and to go on from; older ones are in the log
TASK_TEXT_CHARACTERS_MAX = 4_096  # an objective, a gap, a reason: longer ones belong in a file that it names
TASKS_A_PAGE = 256  # some 100 KB in one answer
TASK_LIST_MAX = 64  # constraints, resources, gaps, launches of one message: people read them
FILES_REPORTED_MAX = 256  # that are read for one report
CHANGES_REPORTED_MAX = 256  # rows of git's list; the others are counted
REPORTED_BYTES_MAX = 1024**3  # of one report's files: some seconds of reading, and the asker waits ten
READERS_MAX = 4  # reports and acceptances that are read for at once; the others wait
TASKS_OF_ASSIGNER_MAX = 512  # that are not over, of one agent: another has room, too
JUDGEMENTS_KEPT = 32  # of one task: whoever is sent back more often does something else
RESERVATIONS_OF_TASK_KEPT = 256  # those that are over; what is held is never forgotten
LAUNCHES_OF_TASK_KEPT = 256
LAUNCHES_OVER_KEPT = 1_024  # commands that have ended, for reports that name them
DIFFERENCES_TOLD_MAX = 8  # in one sentence; bus outcome shows all

# --- state files --------------------------------------------------------------------------
STATE_FILE_TICKETS_MAX = 100  # of a queue; the others are counted
STATE_FILE_BYTES_MAX = 1024 * 1024  # 64 units and 100 tickets with everything as long as it may be
STATE_FILES_A_ROUND = 256  # written in one go, then others have their turn

# --- supervision --------------------------------------------------------------------------
RESTARTS_MAX = 5  # of one actor in …
RESTARTS_WITHIN_MS = 30_000  # … this long; then it is frozen and says so

# --- servers ------------------------------------------------------------------------------
STRANGER_PROBE_MS = 2_000  # how often a port held by a stranger is looked at again
LOG_TAIL_LINES = 20  # lines of a failed server's log that its owner is shown
LOG_TAIL_BYTES = 4 * 1024

# --- repositories -------------------------------------------------------------------------
REPOSITORIES_TRUSTED_MAX = 256  # each is a person's word; more have been forgotten rather than meant
REPOSITORY_CONFIG_BYTES_MAX = 64 * 1024  # it is read before anybody trusts it: a stranger's file costs little
TRUST_STORE_BYTES_MAX = 4 * 1024 * 1024  # 256 entries with paths of 4,096 bytes, escaped, and room
TOKENS_MAX = 1_024  # agents that a person made one for
TOKEN_STORE_BYTES_MAX = 8 * 1024 * 1024  # 1,024 entries with paths of 4,096 bytes, escaped, and room
CONFIG_LINE_DOTS_MAX = 64  # a TOML key with thousands of parts takes its reader seconds
