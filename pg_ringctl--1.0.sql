/* pg_ringctl/pg_ringctl--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION pg_ringctl" to load this file. \quit

--
-- prewarm
--

CREATE FUNCTION pg_ringctl_prewarm(
    relation regclass,
    ring_kb integer DEFAULT 0,
    mode text DEFAULT 'buffer',
    fork text DEFAULT 'main',
    first_block bigint DEFAULT NULL,
    last_block bigint DEFAULT NULL,
    workers integer DEFAULT 0,
    fit text DEFAULT 'warn',
    OUT blocks bigint,
    OUT blks_hit bigint,
    OUT blks_read bigint,
    OUT ring_buffers integer,
    OUT reuses bigint,
    OUT escapes bigint,
    OUT elapsed_ms double precision)
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_ringctl_prewarm(regclass, integer, text, text, bigint, bigint, integer, text) IS
'read blocks of a relation through a ring of ring_kb kB (0: no ring, -1: the ring that a sequential scan would get), with the help of so many parallel workers; fit: what to do with what does not fit into shared buffers (warn, stop or ignore)';

CREATE FUNCTION pg_ringctl_prewarm_all(
    relation regclass,
    ring_kb integer DEFAULT 0,
    parts text[] DEFAULT '{table,toast,indexes}',
    workers integer DEFAULT 0,
    fit text DEFAULT 'warn',
    OUT relation regclass,
    OUT blocks bigint,
    OUT blks_hit bigint,
    OUT blks_read bigint,
    OUT ring_buffers integer,
    OUT reuses bigint,
    OUT escapes bigint,
    OUT elapsed_ms double precision)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_ringctl_prewarm_all(regclass, integer, text[], integer, text) IS
'read a table, its TOAST table and its indexes, of all partitions, as pg_ringctl_prewarm does; one row for each relation that was read';

CREATE FUNCTION pg_ringctl_prewarm_blocks(
    relation regclass,
    blocks bigint[],
    ring_kb integer DEFAULT 0,
    window_blocks integer DEFAULT 200,
    reorder text DEFAULT 'zigzag',
    OUT blocks bigint,
    OUT blks_hit bigint,
    OUT blks_read bigint,
    OUT seek_distance bigint,
    OUT elapsed_ms double precision)
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION pg_ringctl_prewarm_blocks(regclass, bigint[], integer, integer, text) IS
'read the blocks of a list, reordered within a window (none, zigzag, sorted), through a ring of ring_kb kB';

--
-- cumulative statistics
--

CREATE FUNCTION pg_ringctl_stats(
    OUT datid oid,
    OUT relid oid,
    OUT kind text,
    OUT scans bigint,
    OUT workers bigint,
    OUT blocks bigint,
    OUT blks_hit bigint,
    OUT blks_read bigint,
    OUT blks_unringed bigint,
    OUT fills bigint,
    OUT reuses bigint,
    OUT escapes_pinned bigint,
    OUT escapes_dirty bigint,
    OUT escapes_adopted bigint,
    OUT slots_lost bigint,
    OUT unconsumed bigint,
    OUT ring_buffers integer,
    OUT ring_buffers_max integer,
    OUT wal_flushes bigint,
    OUT released bigint,
    OUT blks_shared bigint,
    OUT share_waits bigint,
    OUT share_wait_ms double precision,
    OUT elapsed_ms double precision,
    OUT last_scan timestamptz,
    OUT stats_reset timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_ringctl_stats() IS
'statistics of the rings that relations of all databases were read through';

CREATE VIEW pg_ringctl_stats AS
    SELECT s.datid, d.datname, s.relid, c.relname, s.kind, s.scans, s.workers,
           s.blocks, s.blks_hit, s.blks_read, s.blks_unringed,
           s.fills, s.reuses, s.escapes_pinned, s.escapes_dirty,
           s.escapes_adopted, s.slots_lost, s.unconsumed,
           s.ring_buffers, s.ring_buffers_max, s.wal_flushes, s.released,
           s.blks_shared, s.share_waits, s.share_wait_ms, s.elapsed_ms, s.last_scan, s.stats_reset
      FROM pg_ringctl_stats() s
           JOIN pg_catalog.pg_database d ON d.oid = s.datid
           LEFT JOIN pg_catalog.pg_class c
                  ON c.oid = s.relid AND d.datname = pg_catalog.current_database()
     WHERE c.oid IS NOT NULL OR d.datname <> pg_catalog.current_database();

COMMENT ON VIEW pg_ringctl_stats IS
'statistics of the rings that relations were read through, one row for each database, relation and kind of reader';
COMMENT ON COLUMN pg_ringctl_stats.datid IS 'OID of the database';
COMMENT ON COLUMN pg_ringctl_stats.datname IS 'name of the database';
COMMENT ON COLUMN pg_ringctl_stats.relid IS 'OID of the relation';
COMMENT ON COLUMN pg_ringctl_stats.relname IS 'name of the relation; null if it is in another database';
COMMENT ON COLUMN pg_ringctl_stats.kind IS 'kind of reader: seqscan or prewarm';
COMMENT ON COLUMN pg_ringctl_stats.scans IS 'number of scans, a rescan being another one, and a parallel scan being one';
COMMENT ON COLUMN pg_ringctl_stats.workers IS 'number of parallel workers that took part in them';
COMMENT ON COLUMN pg_ringctl_stats.blocks IS 'blocks asked for';
COMMENT ON COLUMN pg_ringctl_stats.blks_hit IS 'of these, found in shared buffers';
COMMENT ON COLUMN pg_ringctl_stats.blks_read IS 'of these, read through a ring: fills + reuses + escapes_pinned + escapes_adopted';
COMMENT ON COLUMN pg_ringctl_stats.blks_unringed IS 'of these, read without a ring';
COMMENT ON COLUMN pg_ringctl_stats.fills IS 'reads into a slot of the ring that was empty';
COMMENT ON COLUMN pg_ringctl_stats.reuses IS 'reads into the buffer that the slot held';
COMMENT ON COLUMN pg_ringctl_stats.escapes_pinned IS 'reads into another buffer because the slot''s was pinned; that one stayed behind';
COMMENT ON COLUMN pg_ringctl_stats.escapes_dirty IS 'buffers left behind because reusing them needed a flush of WAL; their slots were emptied';
COMMENT ON COLUMN pg_ringctl_stats.escapes_adopted IS 'reads into another buffer because somebody else uses the page in the slot''s, too';
COMMENT ON COLUMN pg_ringctl_stats.slots_lost IS 'slots emptied because their buffer had been given to another page';
COMMENT ON COLUMN pg_ringctl_stats.unconsumed IS 'blocks asked for by look-ahead, and not wanted because the scan ended before, or went on in another way';
COMMENT ON COLUMN pg_ringctl_stats.ring_buffers IS 'size in buffers of the last ring; 0 if there was none';
COMMENT ON COLUMN pg_ringctl_stats.ring_buffers_max IS 'size in buffers of the largest ring';
COMMENT ON COLUMN pg_ringctl_stats.wal_flushes IS 'times that WAL was flushed to keep dirty pages in the ring';
COMMENT ON COLUMN pg_ringctl_stats.released IS 'buffers let go, and evicted, because a ring that sizes itself shrank';
COMMENT ON COLUMN pg_ringctl_stats.blks_shared IS 'blocks found in shared buffers while other scans of the relation shared their reads';
COMMENT ON COLUMN pg_ringctl_stats.share_waits IS 'times that a scan waited for a slower one that it shared with';
COMMENT ON COLUMN pg_ringctl_stats.share_wait_ms IS 'time spent in that, in milliseconds';
COMMENT ON COLUMN pg_ringctl_stats.elapsed_ms IS 'time that the scans ran, in all their processes, in milliseconds';
COMMENT ON COLUMN pg_ringctl_stats.last_scan IS 'when the last scan ended';
COMMENT ON COLUMN pg_ringctl_stats.stats_reset IS 'since when this row counts';

CREATE FUNCTION pg_ringctl_stats_info(
    OUT relations bigint,
    OUT dealloc bigint,
    OUT escapes_dropped bigint,
    OUT stats_reset timestamptz)
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_ringctl_stats_info() IS
'how many rows pg_ringctl_stats has, how many had to go, and when all were reset';

CREATE VIEW pg_ringctl_stats_info AS
    SELECT * FROM pg_ringctl_stats_info();

COMMENT ON VIEW pg_ringctl_stats_info IS
'how many rows pg_ringctl_stats has, how many had to go, and when all were reset';
COMMENT ON COLUMN pg_ringctl_stats_info.relations IS 'number of rows that are kept, also those of dropped relations and other databases';
COMMENT ON COLUMN pg_ringctl_stats_info.dealloc IS 'number of rows that had to go because there were more than pg_ringctl.max_relations';
COMMENT ON COLUMN pg_ringctl_stats_info.escapes_dropped IS 'number of escaped buffers that had to be forgotten because the log was full';
COMMENT ON COLUMN pg_ringctl_stats_info.stats_reset IS 'when all statistics were last reset';

CREATE FUNCTION pg_ringctl_stats_reset(
    datid oid DEFAULT 0,
    relid oid DEFAULT 0)
RETURNS timestamptz
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_ringctl_stats_reset(oid, oid) IS
'reset the statistics of a relation, of a database, or all (0 stands for any); OIDs of relations may be the same in several databases';

--
-- live rings
--

CREATE FUNCTION pg_ringctl_rings(
    OUT ringid bigint,
    OUT pid integer,
    OUT leader_pid integer,
    OUT datid oid,
    OUT relid oid,
    OUT kind text,
    OUT source text,
    OUT ring_kb bigint,
    OUT ring_buffers integer,
    OUT occupied integer,
    OUT current_slot integer,
    OUT look_ahead bigint,
    OUT blocks_done bigint,
    OUT blocks_total bigint,
    OUT fills bigint,
    OUT reuses bigint,
    OUT escapes_pinned bigint,
    OUT escapes_dirty bigint,
    OUT escapes_adopted bigint,
    OUT blks_shared bigint,
    OUT share_waits bigint,
    OUT share_wait_ms double precision,
    OUT started timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_ringctl_rings() IS
'the rings that scans and prewarms of all sessions read through now';

CREATE VIEW pg_ringctl_rings AS
    SELECT r.ringid, r.pid, r.leader_pid, r.datid, d.datname, r.relid, c.relname,
           r.kind, r.source, r.ring_kb, r.ring_buffers, r.occupied,
           r.current_slot, r.look_ahead, r.blocks_done, r.blocks_total,
           r.fills, r.reuses, r.escapes_pinned, r.escapes_dirty,
           r.escapes_adopted, r.blks_shared, r.share_waits, r.share_wait_ms,
           r.started
      FROM pg_ringctl_rings() r
           LEFT JOIN pg_catalog.pg_database d ON d.oid = r.datid
           LEFT JOIN pg_catalog.pg_class c
                  ON c.oid = r.relid AND d.datname = pg_catalog.current_database();

COMMENT ON VIEW pg_ringctl_rings IS
'the rings that scans and prewarms read through now, one row for each process and stream';
COMMENT ON COLUMN pg_ringctl_rings.ringid IS 'number of the ring, not used again while the server runs';
COMMENT ON COLUMN pg_ringctl_rings.pid IS 'process ID of the process that reads';
COMMENT ON COLUMN pg_ringctl_rings.leader_pid IS 'process ID of its leader, if it is a parallel worker';
COMMENT ON COLUMN pg_ringctl_rings.datid IS 'OID of the database';
COMMENT ON COLUMN pg_ringctl_rings.datname IS 'name of the database';
COMMENT ON COLUMN pg_ringctl_rings.relid IS 'OID of the relation';
COMMENT ON COLUMN pg_ringctl_rings.relname IS 'name of the relation; null if it is in another database';
COMMENT ON COLUMN pg_ringctl_rings.kind IS 'kind of reader: seqscan or prewarm';
COMMENT ON COLUMN pg_ringctl_rings.source IS 'where the size came from: threshold (none, the relation is too small), server, policy, scan_ring, chosen, argument (of a function) or max_ring (capped)';
COMMENT ON COLUMN pg_ringctl_rings.ring_kb IS 'size of the ring in kB; 0 if it reads without one';
COMMENT ON COLUMN pg_ringctl_rings.ring_buffers IS 'size of the ring in buffers; 0 if it reads without one';
COMMENT ON COLUMN pg_ringctl_rings.occupied IS 'number of slots that hold a buffer';
COMMENT ON COLUMN pg_ringctl_rings.current_slot IS 'the slot that was used last, counted from 0';
COMMENT ON COLUMN pg_ringctl_rings.look_ahead IS 'blocks asked for, and not yet handed out to the reader';
COMMENT ON COLUMN pg_ringctl_rings.blocks_done IS 'blocks handed out to this process since it started';
COMMENT ON COLUMN pg_ringctl_rings.blocks_total IS 'blocks to be read, by all processes of a parallel scan';
COMMENT ON COLUMN pg_ringctl_rings.fills IS 'reads into a slot of the ring that was empty';
COMMENT ON COLUMN pg_ringctl_rings.reuses IS 'reads into the buffer that the slot held';
COMMENT ON COLUMN pg_ringctl_rings.escapes_pinned IS 'reads into another buffer because the slot''s was pinned; that one stayed behind';
COMMENT ON COLUMN pg_ringctl_rings.escapes_dirty IS 'buffers left behind because reusing them needed a flush of WAL; their slots were emptied';
COMMENT ON COLUMN pg_ringctl_rings.escapes_adopted IS 'reads into another buffer because somebody else uses the page in the slot''s, too';
COMMENT ON COLUMN pg_ringctl_rings.blks_shared IS 'blocks found in shared buffers while other scans of the relation shared their reads';
COMMENT ON COLUMN pg_ringctl_rings.share_waits IS 'times that it waited for a slower scan that it shares with';
COMMENT ON COLUMN pg_ringctl_rings.share_wait_ms IS 'time spent in that, in milliseconds';
COMMENT ON COLUMN pg_ringctl_rings.started IS 'when it started to read; a rescan starts anew';

-- pid is what is asked for and, as every ring has one, a column as well
CREATE FUNCTION pg_ringctl_ring_slots(
    OUT ringid bigint,
    INOUT pid integer DEFAULT NULL,
    OUT datid oid,
    OUT relid oid,
    OUT slot integer,
    OUT bufferid integer,
    OUT relblocknumber bigint,
    OUT holds_own_block boolean,
    OUT isdirty boolean,
    OUT usagecount integer,
    OUT pinning_backends integer,
    OUT is_current boolean)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_ringctl_ring_slots(integer) IS
'the slots of the rings of a process, or of all: the buffer in each and the block that it was read for (null if empty, or let go and not used since), and the buffer''s state now';

--
-- what escaped, and shared_buffers as a whole
--

CREATE FUNCTION pg_ringctl_escapes(
    OUT bufferid integer,
    OUT datid oid,
    OUT relid oid,
    OUT relforknumber smallint,
    OUT relblocknumber bigint,
    OUT reason text,
    OUT pid integer,
    OUT escaped_at timestamptz,
    OUT isdirty boolean,
    OUT usagecount smallint)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_ringctl_escapes() IS
'buffers that escaped from a ring, are in no ring now, and still hold the page that they had then';

CREATE VIEW pg_ringctl_escapes AS
    SELECT e.bufferid, e.datid, e.relid, c.relname, e.relforknumber,
           e.relblocknumber, e.reason, e.pid, e.escaped_at, e.isdirty,
           e.usagecount
      FROM pg_ringctl_escapes() e
           LEFT JOIN pg_catalog.pg_database d ON d.oid = e.datid
           LEFT JOIN pg_catalog.pg_class c
                  ON c.oid = e.relid AND d.datname = pg_catalog.current_database();

COMMENT ON VIEW pg_ringctl_escapes IS
'buffers that escaped from a ring, are in no ring now, and still hold the page that they had then';
COMMENT ON COLUMN pg_ringctl_escapes.bufferid IS 'number of the buffer, as in pg_buffercache';
COMMENT ON COLUMN pg_ringctl_escapes.datid IS 'OID of the database';
COMMENT ON COLUMN pg_ringctl_escapes.relid IS 'OID of the relation';
COMMENT ON COLUMN pg_ringctl_escapes.relname IS 'name of the relation; null if it is in another database';
COMMENT ON COLUMN pg_ringctl_escapes.relforknumber IS 'fork of the relation';
COMMENT ON COLUMN pg_ringctl_escapes.relblocknumber IS 'block of the relation';
COMMENT ON COLUMN pg_ringctl_escapes.reason IS 'why it escaped: pinned, dirty or adopted (somebody else used the page, too)';
COMMENT ON COLUMN pg_ringctl_escapes.pid IS 'process ID of the process whose ring it was';
COMMENT ON COLUMN pg_ringctl_escapes.escaped_at IS 'when it escaped';
COMMENT ON COLUMN pg_ringctl_escapes.isdirty IS 'is the page dirty now?';
COMMENT ON COLUMN pg_ringctl_escapes.usagecount IS 'the clock sweep''s usage count now';

CREATE FUNCTION pg_ringctl_reclaim(
    relation regclass DEFAULT NULL,
    OUT buffers_evicted integer,
    OUT buffers_flushed integer,
    OUT buffers_skipped integer)
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_ringctl_reclaim(regclass) IS
'evict the buffers that escaped, of a relation with its partitions or of all, but for those that are pinned or used by somebody else';

CREATE FUNCTION pg_ringctl_pollution(
    OUT reltablespace oid,
    OUT reldatabase oid,
    OUT relfilenode oid,
    OUT buffers bigint,
    OUT in_ring bigint,
    OUT escaped bigint,
    OUT dirty bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_ringctl_pollution() IS
'what each relation has in shared buffers, and how much of that is in rings or escaped from them';

CREATE VIEW pg_ringctl_pollution AS
    SELECT p.reldatabase AS datid, d.datname, c.oid AS relid, c.relname,
           p.relfilenode, p.buffers, p.in_ring, p.escaped, p.dirty,
           p.buffers::double precision / s.setting::double precision AS share
      FROM pg_ringctl_pollution() p
           CROSS JOIN (SELECT setting FROM pg_catalog.pg_settings
                        WHERE name = 'shared_buffers') s
           LEFT JOIN pg_catalog.pg_database d ON d.oid = p.reldatabase
           LEFT JOIN pg_catalog.pg_class c
                  ON c.oid = CASE WHEN p.reldatabase = 0::pg_catalog.oid OR
                                       d.datname = pg_catalog.current_database()
                                  THEN pg_catalog.pg_filenode_relation(p.reltablespace, p.relfilenode)::pg_catalog.oid
                             END;

COMMENT ON VIEW pg_ringctl_pollution IS
'what each relation of all databases has in shared buffers, and how much of that is in rings or escaped from them';
COMMENT ON COLUMN pg_ringctl_pollution.datid IS 'OID of the database; 0 for relations that all share';
COMMENT ON COLUMN pg_ringctl_pollution.datname IS 'name of the database';
COMMENT ON COLUMN pg_ringctl_pollution.relid IS 'OID of the relation; null if it is in another database';
COMMENT ON COLUMN pg_ringctl_pollution.relname IS 'name of the relation; null if it is in another database';
COMMENT ON COLUMN pg_ringctl_pollution.relfilenode IS 'number of the relation''s file';
COMMENT ON COLUMN pg_ringctl_pollution.buffers IS 'buffers with its pages';
COMMENT ON COLUMN pg_ringctl_pollution.in_ring IS 'of these, in the slots of rings that are in use now';
COMMENT ON COLUMN pg_ringctl_pollution.escaped IS 'of these, escaped from a ring and in none now';
COMMENT ON COLUMN pg_ringctl_pollution.dirty IS 'of these, dirty';
COMMENT ON COLUMN pg_ringctl_pollution.share IS 'buffers as a share of the pool, from 0 to 1';

CREATE FUNCTION pg_ringctl_map(
    width integer DEFAULT 64,
    relation regclass DEFAULT NULL)
RETURNS SETOF text
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_ringctl_map(integer, regclass) IS
'the buffer pool as a picture of text, with a legend';

--
-- a query's scans
--

CREATE FUNCTION pg_ringctl_last_scans(
    OUT plan_node_id integer,
    OUT relid regclass,
    OUT worker integer,
    OUT scans bigint,
    OUT ring_kb bigint,
    OUT ring_buffers integer,
    OUT source text,
    OUT blocks bigint,
    OUT blks_hit bigint,
    OUT blks_read bigint,
    OUT blks_unringed bigint,
    OUT unconsumed bigint,
    OUT fills bigint,
    OUT reuses bigint,
    OUT escapes_pinned bigint,
    OUT escapes_dirty bigint,
    OUT escapes_adopted bigint,
    OUT slots_lost bigint,
    OUT wal_flushes bigint,
    OUT released bigint,
    OUT blks_shared bigint,
    OUT share_waits bigint,
    OUT share_wait_ms double precision,
    OUT elapsed_ms double precision)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_ringctl_last_scans() IS
'the sequential scans of this session''s last statement that had any, one row for each process that took part (worker: number of the parallel worker, or null)';

CREATE FUNCTION pg_ringctl_resolve(
    relation regclass,
    OUT ring_kb bigint,
    OUT ring_buffers integer,
    OUT source text,
    OUT look_ahead integer,
    OUT threshold bigint,
    OUT blocks bigint,
    OUT reason text)
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_ringctl_resolve(regclass) IS
'the ring that a sequential scan of the relation would get now, and why; look_ahead, threshold and blocks are numbers of blocks';

--
-- policies of relations
--

CREATE FUNCTION pg_ringctl_set_policy(
    relation regclass,
    scan_ring text DEFAULT NULL,
    scan_threshold text DEFAULT NULL,
    dirty_pages text DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION pg_ringctl_set_policy(regclass, text, text, text) IS
'set what the parameters of these names are for sequential scans of the relation, in place of the policy that it had (null: as the parameter says)';

CREATE FUNCTION pg_ringctl_drop_policy(relation regclass)
RETURNS boolean
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION pg_ringctl_drop_policy(regclass) IS
'drop the relation''s own policy; returns whether it had one';

CREATE FUNCTION pg_ringctl_parse_policy(
    label text,
    OUT scan_ring text,
    OUT scan_threshold text,
    OUT dirty_pages text)
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT IMMUTABLE PARALLEL SAFE;

COMMENT ON FUNCTION pg_ringctl_parse_policy(text) IS
'the settings in a policy, as it is written in a security label';

CREATE VIEW pg_ringctl_policies AS
    SELECT l.objoid AS relid, n.nspname AS schemaname, c.relname,
           p.scan_ring, p.scan_threshold, p.dirty_pages
      FROM pg_catalog.pg_seclabel l
           JOIN pg_catalog.pg_class c ON c.oid = l.objoid
           JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
           CROSS JOIN LATERAL pg_ringctl_parse_policy(l.label) p
     WHERE l.provider = 'pg_ringctl' AND l.objsubid = 0
           AND l.classoid = 'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid;

COMMENT ON VIEW pg_ringctl_policies IS
'policies of the relations of this database, one row for each relation that has its own';
COMMENT ON COLUMN pg_ringctl_policies.relid IS 'OID of the relation';
COMMENT ON COLUMN pg_ringctl_policies.schemaname IS 'name of the schema that it is in';
COMMENT ON COLUMN pg_ringctl_policies.relname IS 'name of the relation';
COMMENT ON COLUMN pg_ringctl_policies.scan_ring IS 'what pg_ringctl.scan_ring is for its scans; null: as the parameter says';
COMMENT ON COLUMN pg_ringctl_policies.scan_threshold IS 'what pg_ringctl.scan_threshold is for its scans; null: as the parameter says';
COMMENT ON COLUMN pg_ringctl_policies.dirty_pages IS 'what pg_ringctl.dirty_pages is for its scans; null: as the parameter says';

CREATE FUNCTION pg_ringctl_drop_all_policies() RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
    SELECT count(*) FILTER (WHERE pg_ringctl_drop_policy(relid::pg_catalog.regclass))
      FROM pg_ringctl_policies;
END;

COMMENT ON FUNCTION pg_ringctl_drop_all_policies() IS
'drop the policies of all relations of this database, whose owner one must be; returns how many there were';

--
-- What shows other people's activity is for those who may read all
-- statistics; what changes things for others is the superuser's to grant.
--

REVOKE ALL ON FUNCTION pg_ringctl_stats() FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_ringctl_stats_info() FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_ringctl_stats_reset(oid, oid) FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_ringctl_rings() FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_ringctl_ring_slots(integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_ringctl_escapes() FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_ringctl_reclaim(regclass) FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_ringctl_pollution() FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_ringctl_map(integer, regclass) FROM PUBLIC;
REVOKE ALL ON pg_ringctl_stats FROM PUBLIC;
REVOKE ALL ON pg_ringctl_stats_info FROM PUBLIC;
REVOKE ALL ON pg_ringctl_rings FROM PUBLIC;
REVOKE ALL ON pg_ringctl_escapes FROM PUBLIC;
REVOKE ALL ON pg_ringctl_pollution FROM PUBLIC;

GRANT EXECUTE ON FUNCTION pg_ringctl_stats() TO pg_read_all_stats;
GRANT EXECUTE ON FUNCTION pg_ringctl_stats_info() TO pg_read_all_stats;
GRANT EXECUTE ON FUNCTION pg_ringctl_rings() TO pg_read_all_stats;
GRANT EXECUTE ON FUNCTION pg_ringctl_ring_slots(integer) TO pg_read_all_stats;
GRANT EXECUTE ON FUNCTION pg_ringctl_escapes() TO pg_read_all_stats;
GRANT EXECUTE ON FUNCTION pg_ringctl_pollution() TO pg_read_all_stats;
GRANT EXECUTE ON FUNCTION pg_ringctl_map(integer, regclass) TO pg_read_all_stats;
GRANT SELECT ON pg_ringctl_stats TO pg_read_all_stats;
GRANT SELECT ON pg_ringctl_stats_info TO pg_read_all_stats;
GRANT SELECT ON pg_ringctl_rings TO pg_read_all_stats;
GRANT SELECT ON pg_ringctl_escapes TO pg_read_all_stats;
GRANT SELECT ON pg_ringctl_pollution TO pg_read_all_stats;
GRANT SELECT ON pg_ringctl_policies TO PUBLIC;
