"""What is said to the database in words of its own; both databases read most of them alike.

**Why the ranking is exact**: the N best visits by discounted priority lie in the N hosts whose
first visit is best, as each further visit of a host counts less. So the window function runs over
the visits of N hosts, not over all that is due; and of those only over what is no worse than the
worst of these first visits.
"""

from __future__ import annotations

from sqlalchemy import bindparam, text

from .schema import ASLEEP, HELD, READY

_HOSTS = """
    SELECT q.host_id AS id, q.held, q.score
    FROM adaptive_queue q {lock_join}
    LEFT JOIN adaptive_lease l ON l.host_id = q.host_id AND l.egress = :egress
    WHERE q.spider_id = :spider AND q.score IS NOT NULL AND q.held < :per_host
      AND (l.session_id = :session OR (l.session_id IS NULL AND :hosts > 0))
      AND coalesce(l.wake_at, 0) <= :now
    ORDER BY q.score DESC, q.host_id LIMIT :most {lock}
"""

_RANK = """
WITH h AS MATERIALIZED ({hosts}),
t AS MATERIALIZED (
    SELECT CASE WHEN count(*) < :most THEN CAST(:lowest AS double precision) ELSE min(score) END
    AS least FROM h),
c AS (
    SELECT p.id, p.priority, h.id AS host_id,
        row_number() OVER (PARTITION BY h.id ORDER BY p.priority DESC, p.id) + h.held AS depth
    FROM h {visits}
)
SELECT id, host_id, priority - :discount * (depth - 1) AS rank FROM c
WHERE depth <= :per_host ORDER BY rank DESC, id LIMIT :most
"""

_FIRST = f"""
    SELECT {{columns}} FROM adaptive_visit
    WHERE spider_id = :spider AND host_id = h.id AND state = {READY}
      AND priority >= (SELECT least FROM t)
    ORDER BY priority DESC, id LIMIT :per_host
"""

RANK_SQLITE = text(
    _RANK.format(
        hosts=_HOSTS.format(lock_join="", lock=""),
        visits=f"CROSS JOIN adaptive_visit p ON p.id IN ({_FIRST.format(columns='id')})",
    )
)
RANK_POSTGRESQL = text(
    _RANK.format(
        hosts=_HOSTS.format(
            lock_join="JOIN adaptive_host a ON a.id = q.host_id",
            lock="FOR UPDATE OF a SKIP LOCKED",
        ),
        visits=f"CROSS JOIN LATERAL ({_FIRST.format(columns='id, priority')}) p",
    )
)

_OLDEST = f"""
SELECT v.id, v.host_id, v.due AS rank FROM adaptive_visit v {{lock_join}}
LEFT JOIN adaptive_lease l ON l.host_id = v.host_id AND l.egress = :egress
WHERE v.spider_id = :spider AND v.state = {READY}
  AND (l.session_id = :session OR (l.session_id IS NULL AND :hosts > 0))
  AND coalesce(l.wake_at, 0) <= :now
ORDER BY v.due LIMIT :most {{lock}}
"""
OLDEST_SQLITE = text(_OLDEST.format(lock_join="", lock=""))
OLDEST_POSTGRESQL = text(
    _OLDEST.format(
        lock_join="JOIN adaptive_host a ON a.id = v.host_id",
        lock="FOR UPDATE OF a SKIP LOCKED",
    )
)

PROMOTE = """
UPDATE adaptive_visit SET state = {ready} WHERE id IN (
    SELECT id FROM adaptive_visit WHERE spider_id = :spider AND state = {asleep} AND due <= :now
    ORDER BY due LIMIT :most {lock}) RETURNING host_id
"""
PROMOTE_SQLITE = text(PROMOTE.format(ready=READY, asleep=ASLEEP, lock=""))
PROMOTE_POSTGRESQL = text(PROMOTE.format(ready=READY, asleep=ASLEEP, lock="FOR UPDATE SKIP LOCKED"))

CLAIM = text("""
INSERT INTO adaptive_lease (host_id, egress, session_id, generation)
VALUES (:host, :egress, :session, :generation)
ON CONFLICT (host_id, egress) DO UPDATE
SET session_id = :session, generation = :generation, wanted_at = 0
WHERE adaptive_lease.session_id IS NULL AND adaptive_lease.wake_at <= :now
RETURNING state, state_at
""")

WANT = text("""
UPDATE adaptive_lease SET wanted_at = :now
WHERE host_id = :host AND egress = :egress AND session_id <> :session
""")

LEASES = text(
    "SELECT host_id, generation, wanted_at FROM adaptive_lease WHERE session_id = :session"
)

_NEXT = f"""
    SELECT {{columns}} FROM adaptive_visit
    WHERE spider_id = :spider AND host_id = q.host_id AND state = {READY}
    ORDER BY priority DESC, id LIMIT :most
"""

_REFILL = """
SELECT p.id FROM adaptive_queue q CROSS JOIN {visits}
WHERE q.spider_id = :spider AND q.host_id IN :hosts
"""
REFILL_SQLITE = text(
    _REFILL.format(visits=f"adaptive_visit p ON p.id IN ({_NEXT.format(columns='id')})")
).bindparams(bindparam("hosts", expanding=True))
REFILL_POSTGRESQL = text(
    _REFILL.format(visits=f"LATERAL ({_NEXT.format(columns='id')}) p")
).bindparams(bindparam("hosts", expanding=True))

HELD_IDS = text(f"""
SELECT id FROM adaptive_visit
WHERE spider_id = :spider AND host_id = :host AND generation = :generation AND state = {HELD}
""")

GIVE_ALL = text(f"""
UPDATE adaptive_visit SET state = {HELD}, generation = (
    SELECT l.generation FROM adaptive_lease l
    WHERE l.host_id = adaptive_visit.host_id AND l.egress = :egress)
WHERE id IN :ids AND state = {READY}
RETURNING id, host_id, url, payload, priority,
    status, error, etag, last_modified, digest, item_count, period
""").bindparams(bindparam("ids", expanding=True))

TAKE_BACK = text(f"""
UPDATE adaptive_visit SET state = {READY}, generation = NULL
WHERE spider_id = :spider AND host_id = :host AND generation = :generation AND state = {HELD}
""")

TAKE_BACK_SOME = text(f"""
UPDATE adaptive_visit SET state = {READY}, generation = NULL
WHERE id IN :ids AND generation = :generation AND state = {HELD}
""").bindparams(bindparam("ids", expanding=True))

TAKE_BACK_ALL = text(f"""
UPDATE adaptive_visit SET state = {READY}, generation = NULL
WHERE id IN :ids AND generation BETWEEN :first AND :last AND state = {HELD}
RETURNING host_id
""").bindparams(bindparam("ids", expanding=True))

DONE = text(f"""
UPDATE adaptive_visit SET state = {ASLEEP}, generation = NULL, due = :due, run = :run,
    status = :status, error = :error, etag = :etag, last_modified = :last_modified,
    digest = :digest, item_count = :item_count, period = :period,
    visited_at = :now, visit_count = visit_count + 1
WHERE id = :id AND generation = :generation AND state = {HELD}
""")

DONE_UNCHANGED = text(f"""
UPDATE adaptive_visit SET state = {ASLEEP}, generation = NULL, due = :due, run = :run,
    status = :status, error = :error, period = :period,
    visited_at = :now, visit_count = visit_count + 1
WHERE id = :id AND generation = :generation AND state = {HELD}
""")

INSERT = """
INSERT INTO adaptive_visit
    (spider_id, host_id, fingerprint, url, payload, priority, state, due, run) {rows}
ON CONFLICT (spider_id, fingerprint) DO NOTHING
"""
INSERT_SQLITE = INSERT.format(rows="VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)")
INSERT_POSTGRESQL = text(
    INSERT.format(
        rows="""
    SELECT :spider, x.host_id, x.fingerprint, x.url, x.payload, x.priority,
        CAST(x.state AS smallint), x.due, :run
    FROM unnest(CAST(:hosts AS bigint[]), CAST(:fingerprints AS bytea[]), CAST(:urls AS text[]),
        CAST(:payloads AS text[]), CAST(:priorities AS double precision[]),
        CAST(:states AS integer[]), CAST(:dues AS bigint[]))
        AS x(host_id, fingerprint, url, payload, priority, state, due)"""
    )
)

AGAIN = text(f"""
UPDATE adaptive_visit SET state = {READY}, due = :now, run = :run
WHERE spider_id = :spider AND fingerprint = :fingerprint AND state = {ASLEEP}
  AND due IS NULL AND run < :run AND (:always = 1 OR item_count = 0)
""")

TOUCH = text(f"""
UPDATE adaptive_queue SET
    held = (SELECT count(*) FROM adaptive_visit v WHERE v.spider_id = :spider
        AND v.host_id = adaptive_queue.host_id AND v.state = {HELD}),
    score = (SELECT v.priority FROM adaptive_visit v WHERE v.spider_id = :spider
        AND v.host_id = adaptive_queue.host_id AND v.state = {READY}
        ORDER BY v.priority DESC, v.id LIMIT 1)
        - :discount * (SELECT count(*) FROM adaptive_visit v WHERE v.spider_id = :spider
        AND v.host_id = adaptive_queue.host_id AND v.state = {HELD})
WHERE spider_id = :spider AND host_id IN :hosts
""").bindparams(bindparam("hosts", expanding=True))

LOCK_QUEUES = text("""
SELECT host_id FROM adaptive_queue WHERE spider_id = :spider AND host_id IN :hosts
ORDER BY host_id FOR UPDATE
""").bindparams(bindparam("hosts", expanding=True))

LOCK_LEASES = text("""
SELECT host_id FROM adaptive_lease
WHERE host_id IN :hosts AND egress = :egress AND session_id = :session
ORDER BY host_id FOR UPDATE
""").bindparams(bindparam("hosts", expanding=True))

DEAD = text("""
SELECT l.host_id, l.egress, l.generation, l.session_id, s.spider_id
FROM adaptive_lease l LEFT JOIN adaptive_session s ON s.id = l.session_id
WHERE l.session_id IS NOT NULL AND (s.id IS NULL OR s.deadline = :over)
ORDER BY l.host_id LIMIT :most
""")
DEAD_POSTGRESQL = text(f"{DEAD.text} FOR UPDATE OF l SKIP LOCKED")

IS_LEFT = text(f"""
SELECT EXISTS (SELECT 1 FROM adaptive_visit WHERE spider_id = :spider AND state = {READY})
    OR EXISTS (SELECT 1 FROM adaptive_visit WHERE spider_id = :spider AND state = {HELD})
    OR EXISTS (SELECT 1 FROM adaptive_visit WHERE spider_id = :spider AND state = {ASLEEP}
        AND due IS NOT NULL)
    OR EXISTS (SELECT 1 FROM adaptive_session WHERE spider_id = :spider AND deadline >= :now)
""")

OUTLOOK = text(f"""
SELECT
    (SELECT coalesce(sum(held), 0) FROM adaptive_queue
        WHERE spider_id = :spider AND held > 0) AS busy,
    EXISTS (SELECT 1 FROM adaptive_queue q
        LEFT JOIN adaptive_lease l ON l.host_id = q.host_id AND l.egress = :egress
        WHERE q.spider_id = :spider AND q.score IS NOT NULL
          AND (l.session_id IS NOT NULL OR coalesce(l.wake_at, 0) <= :now)) AS is_due,
    (SELECT min(x) FROM (
        SELECT min(due) AS x FROM adaptive_visit
        WHERE spider_id = :spider AND state = {ASLEEP} AND due IS NOT NULL
        UNION ALL
        SELECT min(l.wake_at) FROM adaptive_lease l
        JOIN adaptive_queue q ON q.host_id = l.host_id
        WHERE l.egress = :egress AND q.spider_id = :spider AND q.score IS NOT NULL
          AND l.wake_at > :now) AS y) AS due
""")
"""What is left, in one statement: of two the second would see what another worker did between."""

WAITED_FOR = text("""
SELECT l.host_id FROM adaptive_lease l
WHERE l.session_id = :session AND EXISTS (
    SELECT 1 FROM adaptive_queue q
    JOIN adaptive_session s ON s.spider_id = q.spider_id AND s.egress = l.egress
    WHERE q.host_id = l.host_id AND q.score IS NOT NULL AND q.spider_id <> :spider
      AND s.deadline >= :now)
""")

MEMBERS = text("""
SELECT s.id, s.hungry, count(l.host_id) AS held
FROM adaptive_session s LEFT JOIN adaptive_lease l ON l.session_id = s.id
WHERE s.spider_id = :spider AND s.egress = :egress AND s.deadline >= :now
GROUP BY s.id, s.hungry
""")

COUNTS = text(f"""
SELECT
    coalesce(sum(CASE WHEN state = {READY} THEN 1 ELSE 0 END), 0) AS ready,
    coalesce(sum(CASE WHEN state = {ASLEEP} AND due IS NOT NULL THEN 1 ELSE 0 END), 0) AS asleep,
    coalesce(sum(CASE WHEN state = {HELD} THEN 1 ELSE 0 END), 0) AS leased,
    coalesce(sum(CASE WHEN state = {ASLEEP} AND due IS NULL AND error IS NULL
        THEN 1 ELSE 0 END), 0) AS finished,
    coalesce(sum(CASE WHEN error IS NOT NULL THEN 1 ELSE 0 END), 0) AS failed,
    count(DISTINCT host_id) AS hosts
FROM adaptive_visit WHERE spider_id = :spider
""")
