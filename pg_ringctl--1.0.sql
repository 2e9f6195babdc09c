/* pg_ringctl/pg_ringctl--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION pg_ringctl" to load this file. \quit

--
-- prewarm
--
-- The argument "ring" has the syntax of pg_ringctl.scan_ring, or is a number of kB.
--

CREATE FUNCTION pg_ringctl_prewarm(
    relation regclass,
    ring text DEFAULT '0',
    mode text DEFAULT 'buffer',
    fork text DEFAULT 'main',
    first_block bigint DEFAULT NULL,
    last_block bigint DEFAULT NULL,
    workers integer DEFAULT 0,
    fit text DEFAULT 'stop',
    OUT blocks bigint,
    OUT blks_hit bigint,
    OUT blks_read bigint,
    OUT ring_buffers integer,
    OUT reuses bigint,
    OUT escapes bigint,
    OUT elapsed_time double precision)
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

CREATE FUNCTION pg_ringctl_prewarm(
    relation regclass,
    ring bigint,
    mode text DEFAULT 'buffer',
    fork text DEFAULT 'main',
    first_block bigint DEFAULT NULL,
    last_block bigint DEFAULT NULL,
    workers integer DEFAULT 0,
    fit text DEFAULT 'stop',
    OUT blocks bigint,
    OUT blks_hit bigint,
    OUT blks_read bigint,
    OUT ring_buffers integer,
    OUT reuses bigint,
    OUT escapes bigint,
    OUT elapsed_time double precision)
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_ringctl_prewarm(regclass, text, text, text, bigint, bigint, integer, text) IS
'read blocks of a relation through a ring of this size (0: no ring, -1: the ring that a sequential scan would get, or, where that is the server''s own, one that sizes itself), with the help of parallel workers; fit: what to do with blocks that do not fit into shared buffers (stop, warn or ignore)';
COMMENT ON FUNCTION pg_ringctl_prewarm(regclass, bigint, text, text, bigint, bigint, integer, text) IS
'read blocks of a relation through a ring of this size in kB';

CREATE FUNCTION pg_ringctl_prewarm_all(
    relation regclass,
    ring text DEFAULT '0',
    parts text[] DEFAULT '{indexes,table,toast}',
    workers integer DEFAULT 0,
    fit text DEFAULT 'stop',
    OUT relid oid,
    OUT blocks bigint,
    OUT blks_hit bigint,
    OUT blks_read bigint,
    OUT ring_buffers integer,
    OUT reuses bigint,
    OUT escapes bigint,
    OUT elapsed_time double precision)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

CREATE FUNCTION pg_ringctl_prewarm_all(
    relation regclass,
    ring bigint,
    parts text[] DEFAULT '{indexes,table,toast}',
    workers integer DEFAULT 0,
    fit text DEFAULT 'stop',
    OUT relid oid,
    OUT blocks bigint,
    OUT blks_hit bigint,
    OUT blks_read bigint,
    OUT ring_buffers integer,
    OUT reuses bigint,
    OUT escapes bigint,
    OUT elapsed_time double precision)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_ringctl_prewarm_all(regclass, text, text[], integer, text) IS
'read a table, its indexes and its TOAST table, or all partitions of a partitioned table with theirs, in the order that parts gives; the other arguments are those of pg_ringctl_prewarm; returns one row for each relation';
COMMENT ON FUNCTION pg_ringctl_prewarm_all(regclass, bigint, text[], integer, text) IS
'read a table, its indexes and its TOAST table through a ring of this size in kB';

CREATE FUNCTION pg_ringctl_prewarm_blocks(
    relation regclass,
    blocks bigint[],
    ring text DEFAULT '0',
    window_blocks integer DEFAULT 200,
    reorder text DEFAULT 'zigzag',
    fit text DEFAULT 'stop',
    OUT blocks bigint,
    OUT blks_hit bigint,
    OUT blks_read bigint,
    OUT ring_buffers integer,
    OUT reuses bigint,
    OUT escapes bigint,
    OUT seek_distance bigint,
    OUT elapsed_time double precision)
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

CREATE FUNCTION pg_ringctl_prewarm_blocks(
    relation regclass,
    blocks bigint[],
    ring bigint,
    window_blocks integer DEFAULT 200,
    reorder text DEFAULT 'zigzag',
    fit text DEFAULT 'stop',
    OUT blocks bigint,
    OUT blks_hit bigint,
    OUT blks_read bigint,
    OUT ring_buffers integer,
    OUT reuses bigint,
    OUT escapes bigint,
    OUT seek_distance bigint,
    OUT elapsed_time double precision)
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_ringctl_prewarm_blocks(regclass, bigint[], text, integer, text, text) IS
'read the blocks of a list, reordered within a window (none, zigzag, sorted), through a ring of this size';
COMMENT ON FUNCTION pg_ringctl_prewarm_blocks(regclass, bigint[], bigint, integer, text, text) IS
'read the blocks of a list, reordered within a window (none, zigzag, sorted), through a ring of this size in kB';

--
-- cumulative statistics
--

CREATE FUNCTION pg_ringctl_stats(
    OUT datid oid,
    OUT relid oid,
    OUT kind text,
    OUT scans bigint,
    OUT workers_launched bigint,
    OUT ring_buffers integer,
    OUT ring_buffers_max integer,
    OUT total_time double precision,
    OUT last_scan timestamptz,
    OUT stats_reset timestamptz,
    OUT blocks bigint,
    OUT blks_hit bigint,
    OUT blks_read bigint,
    OUT fills bigint,
    OUT reuses bigint,
    OUT escapes_pinned bigint,
    OUT escapes_dirty bigint,
    OUT escapes_adopted bigint,
    OUT slots_lost bigint,
    OUT blks_unconsumed bigint,
    OUT wal_flushes bigint,
    OUT buffers_released bigint,
    OUT scan_sharing_blks_hit bigint,
    OUT scan_sharing_waits bigint,
    OUT scan_sharing_wait_time double precision)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_ringctl_stats() IS
'statistics of the rings that relations of all databases were read through';

CREATE VIEW pg_ringctl_stats AS
    SELECT s.datid, d.datname, s.relid, n.nspname AS schemaname, c.relname,
           s.kind, s.scans, s.workers_launched, s.ring_buffers, s.ring_buffers_max,
           s.total_time, s.last_scan, s.stats_reset,
           s.blocks, s.blks_hit, s.blks_read, s.fills, s.reuses,
           s.escapes_pinned, s.escapes_dirty, s.escapes_adopted,
           s.slots_lost, s.blks_unconsumed, s.wal_flushes, s.buffers_released,
           s.scan_sharing_blks_hit, s.scan_sharing_waits, s.scan_sharing_wait_time
      FROM pg_ringctl_stats() s
           LEFT JOIN pg_catalog.pg_database d ON d.oid = s.datid
           LEFT JOIN pg_catalog.pg_class c
                  ON c.oid = s.relid AND (s.datid = 0::pg_catalog.oid OR d.datname = pg_catalog.current_database())
           LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     WHERE c.oid IS NOT NULL OR d.datname <> pg_catalog.current_database();

COMMENT ON VIEW pg_ringctl_stats IS
'statistics of the rings that relations were read through, one row for each database, relation and kind of reader';
COMMENT ON COLUMN pg_ringctl_stats.datid IS 'OID of the database; 0 for relations shared by all databases';
COMMENT ON COLUMN pg_ringctl_stats.datname IS 'name of the database; null for relations shared by all databases';
COMMENT ON COLUMN pg_ringctl_stats.relid IS 'OID of the relation';
COMMENT ON COLUMN pg_ringctl_stats.schemaname IS 'name of the schema that the relation is in; null if the relation is in another database';
COMMENT ON COLUMN pg_ringctl_stats.relname IS 'name of the relation; null if it is in another database';
COMMENT ON COLUMN pg_ringctl_stats.kind IS 'kind of reader: seqscan, tidrangescan, bitmapscan, indexscan, toast, copy, index_build or prewarm';
COMMENT ON COLUMN pg_ringctl_stats.scans IS 'number of scans; a parallel scan counts as one, but for kind toast only if the leader fetched values through a ring; a rescan counts as another scan, but not for kinds indexscan and toast';
COMMENT ON COLUMN pg_ringctl_stats.workers_launched IS 'number of parallel workers that took part in each scan, added up over the scans';
COMMENT ON COLUMN pg_ringctl_stats.ring_buffers IS 'size in buffers of the last ring';
COMMENT ON COLUMN pg_ringctl_stats.ring_buffers_max IS 'size in buffers of the largest ring';
COMMENT ON COLUMN pg_ringctl_stats.total_time IS 'time from when a scan got its ring until it had asked for all blocks or ended, without pauses of its query, added up over the scans and their processes, in milliseconds; not measured for kind toast';
COMMENT ON COLUMN pg_ringctl_stats.last_scan IS 'when the last scan ended';
COMMENT ON COLUMN pg_ringctl_stats.stats_reset IS 'when this row began to count';
COMMENT ON COLUMN pg_ringctl_stats.blocks IS 'blocks asked for';
COMMENT ON COLUMN pg_ringctl_stats.blks_hit IS 'number of these blocks (column blocks) that were not read, because they were found in shared buffers, or because the scan ended before their read began';
COMMENT ON COLUMN pg_ringctl_stats.blks_read IS 'number of these blocks (column blocks) that were read through a ring: fills + reuses + escapes_pinned + escapes_adopted';
COMMENT ON COLUMN pg_ringctl_stats.fills IS 'reads into a slot of the ring that was empty, or whose buffer had lost its page and was replaced';
COMMENT ON COLUMN pg_ringctl_stats.reuses IS 'reads into the buffer that the slot held';
COMMENT ON COLUMN pg_ringctl_stats.escapes_pinned IS 'reads into another buffer because the slot''s own buffer was pinned; the pinned buffer stayed behind';
COMMENT ON COLUMN pg_ringctl_stats.escapes_dirty IS 'buffers left behind because reusing them needed a flush of WAL; their slots were emptied. Not counted: pages that are left on purpose (see pg_ringctl.dirty_pages) because the query changes or locks rows';
COMMENT ON COLUMN pg_ringctl_stats.escapes_adopted IS 'reads into another buffer because the page in the slot''s own buffer is also used outside the ring';
COMMENT ON COLUMN pg_ringctl_stats.slots_lost IS 'slots whose buffer had been given to another page, or was replaced without a read through the ring; a slot that still names a buffer with another page is emptied, except in observe mode';
COMMENT ON COLUMN pg_ringctl_stats.blks_unconsumed IS 'blocks asked for by look-ahead that the scan did not get, because it ended, was rescanned, or went on somewhere else';
COMMENT ON COLUMN pg_ringctl_stats.wal_flushes IS 'number of times that WAL was flushed so that the buffers of dirty pages could be reused';
COMMENT ON COLUMN pg_ringctl_stats.buffers_released IS 'buffers let go because a ring that sizes itself shrank; their pages were evicted, unless they are also used outside the ring';
COMMENT ON COLUMN pg_ringctl_stats.scan_sharing_blks_hit IS 'blocks found in shared buffers while scans of the relation shared their reads';
COMMENT ON COLUMN pg_ringctl_stats.scan_sharing_waits IS 'number of times that a scan waited for another scan of the relation';
COMMENT ON COLUMN pg_ringctl_stats.scan_sharing_wait_time IS 'time that scans waited for other scans of the relation, in milliseconds';

CREATE FUNCTION pg_ringctl_stats_info(
    OUT entries bigint,
    OUT entries_dropped bigint,
    OUT escapes_dropped bigint,
    OUT rings_not_shown bigint,
    OUT stats_reset timestamptz)
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_ringctl_stats_info() IS
'number of rows of statistics; numbers of the rows, log entries and rings that there was no room for; time of the last reset of all statistics';

CREATE VIEW pg_ringctl_stats_info AS
    SELECT * FROM pg_ringctl_stats_info();

COMMENT ON VIEW pg_ringctl_stats_info IS
'number of rows of statistics; numbers of the rows, log entries and rings that there was no room for; time of the last reset of all statistics';
COMMENT ON COLUMN pg_ringctl_stats_info.entries IS 'number of rows, including those of dropped relations and of other databases';
COMMENT ON COLUMN pg_ringctl_stats_info.entries_dropped IS 'number of rows removed since the last reset of all statistics because there was no room for more: see pg_ringctl.max_entries';
COMMENT ON COLUMN pg_ringctl_stats_info.escapes_dropped IS 'number of entries of the log of escapes, since the last reset of all statistics, that newer ones have replaced, or that were not written because another process was writing, or had written a newer one, in the same place';
COMMENT ON COLUMN pg_ringctl_stats_info.rings_not_shown IS 'number of rings, since the server started, that pg_ringctl_rings did not show, or whose slots pg_ringctl_ring_slots did not show, because there was no room, or because the process could not make its segment of shared memory';
COMMENT ON COLUMN pg_ringctl_stats_info.stats_reset IS 'when all statistics were last reset';

CREATE FUNCTION pg_ringctl_stats_reset(
    datid oid DEFAULT 0,
    relid oid DEFAULT 0)
RETURNS timestamptz
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_ringctl_stats_reset(oid, oid) IS
'reset the statistics of a relation, of a database, or all (0 stands for any); for a relation give datid as well as relid, because relations of different databases may have the same OID';

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
    OUT blocks_total bigint,
    OUT blocks_done bigint,
    OUT fills bigint,
    OUT reuses bigint,
    OUT escapes_pinned bigint,
    OUT escapes_dirty bigint,
    OUT escapes_adopted bigint,
    OUT scan_sharing_blks_hit bigint,
    OUT scan_sharing_waits bigint,
    OUT scan_sharing_wait_time double precision,
    OUT scan_start timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_ringctl_rings() IS
'readers that run now in any session (scans that have a ring, are observed or read ahead; fetches of TOAST values; prewarms), with their rings';

CREATE VIEW pg_ringctl_rings AS
    SELECT r.ringid, r.pid, r.leader_pid, r.datid, d.datname, r.relid,
           n.nspname AS schemaname, c.relname,
           r.kind, r.source, r.ring_kb, r.ring_buffers, r.occupied,
           r.current_slot, r.look_ahead, r.blocks_total, r.blocks_done,
           r.fills, r.reuses, r.escapes_pinned, r.escapes_dirty,
           r.escapes_adopted, r.scan_sharing_blks_hit, r.scan_sharing_waits, r.scan_sharing_wait_time,
           r.scan_start
      FROM pg_ringctl_rings() r
           LEFT JOIN pg_catalog.pg_database d ON d.oid = r.datid
           LEFT JOIN pg_catalog.pg_class c
                  ON c.oid = r.relid AND (r.datid = 0::pg_catalog.oid OR d.datname = pg_catalog.current_database())
           LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace;

COMMENT ON VIEW pg_ringctl_rings IS
'readers that run now in any session: scans that have a ring, are observed or read ahead; fetches of TOAST values; prewarms; one row for each reader and process; without a ring, ring_buffers is 0';
COMMENT ON COLUMN pg_ringctl_rings.ringid IS 'number of the ring, not used again while the server runs';
COMMENT ON COLUMN pg_ringctl_rings.pid IS 'process ID of the process that reads';
COMMENT ON COLUMN pg_ringctl_rings.leader_pid IS 'process ID of the leader, if the process is a parallel worker';
COMMENT ON COLUMN pg_ringctl_rings.datid IS 'OID of the database; 0 for relations shared by all databases';
COMMENT ON COLUMN pg_ringctl_rings.datname IS 'name of the database; null for relations shared by all databases';
COMMENT ON COLUMN pg_ringctl_rings.relid IS 'OID of the relation';
COMMENT ON COLUMN pg_ringctl_rings.schemaname IS 'name of the schema that the relation is in; null if the relation is in another database, or not visible to this transaction';
COMMENT ON COLUMN pg_ringctl_rings.relname IS 'name of the relation; null if it is in another database, or not visible to this transaction';
COMMENT ON COLUMN pg_ringctl_rings.kind IS 'kind of reader, as in pg_ringctl_stats';
COMMENT ON COLUMN pg_ringctl_rings.source IS 'where the size came from: chosen, scan_ring, policy, argument (of a function), max_ring (capped), server (only observed) or none (a prewarm or index scan that reads without a ring)';
COMMENT ON COLUMN pg_ringctl_rings.ring_kb IS 'size of the ring in kB; 0 if the process reads without a ring';
COMMENT ON COLUMN pg_ringctl_rings.ring_buffers IS 'size of the ring in buffers; 0 if the process reads without a ring';
COMMENT ON COLUMN pg_ringctl_rings.occupied IS 'number of slots that hold a buffer';
COMMENT ON COLUMN pg_ringctl_rings.current_slot IS 'the last slot that was taken or passed over, counted from 0';
COMMENT ON COLUMN pg_ringctl_rings.look_ahead IS 'blocks asked for and not yet handed out to the reader';
COMMENT ON COLUMN pg_ringctl_rings.blocks_total IS 'blocks to be read, by all processes together; for a bitmap heap scan, an estimate; for an index scan or TOAST values, the size of the table, of which blocks may be read more than once (the size of a TOAST table is the one that the session last saw)';
COMMENT ON COLUMN pg_ringctl_rings.blocks_done IS 'blocks handed out to this process in the present pass; a sequential scan also counts the first blocks, which were read before scan_start';
COMMENT ON COLUMN pg_ringctl_rings.fills IS 'reads into a slot of the ring that was empty, or whose buffer had lost its page and was replaced; for an index scan without a ring, all its reads';
COMMENT ON COLUMN pg_ringctl_rings.reuses IS 'reads into the buffer that the slot held';
COMMENT ON COLUMN pg_ringctl_rings.escapes_pinned IS 'reads into another buffer because the slot''s own buffer was pinned; the pinned buffer stayed behind';
COMMENT ON COLUMN pg_ringctl_rings.escapes_dirty IS 'buffers left behind because reusing them needed a flush of WAL; their slots were emptied. Not counted: pages that are left on purpose (see pg_ringctl.dirty_pages) because the query changes or locks rows';
COMMENT ON COLUMN pg_ringctl_rings.escapes_adopted IS 'reads into another buffer because the page in the slot''s own buffer is also used outside the ring';
COMMENT ON COLUMN pg_ringctl_rings.scan_sharing_blks_hit IS 'blocks found in shared buffers while scans of the relation shared their reads';
COMMENT ON COLUMN pg_ringctl_rings.scan_sharing_waits IS 'number of times that the scan waited for another scan of the relation';
COMMENT ON COLUMN pg_ringctl_rings.scan_sharing_wait_time IS 'time that the scan waited for other scans of the relation, in milliseconds';
COMMENT ON COLUMN pg_ringctl_rings.scan_start IS 'when the scan, or its last rescan, began to read through the ring (a rescan that ends in its first block may not count); the scan may have read its first blocks before that';

CREATE FUNCTION pg_ringctl_ring_slots(
    OUT ringid bigint,
    OUT pid integer,
    OUT datid oid,
    OUT relid oid,
    OUT relforknumber smallint,
    OUT slot integer,
    OUT bufferid integer,
    OUT relblocknumber bigint,
    OUT holds_own_block boolean,
    OUT isdirty boolean,
    OUT usagecount smallint,
    OUT pinning_backends integer,
    OUT is_current boolean)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pg_ringctl_ring_slots'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

-- pid is an argument, and a column of the result, too
CREATE FUNCTION pg_ringctl_ring_slots(
    OUT ringid bigint,
    INOUT pid integer,
    OUT datid oid,
    OUT relid oid,
    OUT relforknumber smallint,
    OUT slot integer,
    OUT bufferid integer,
    OUT relblocknumber bigint,
    OUT holds_own_block boolean,
    OUT isdirty boolean,
    OUT usagecount smallint,
    OUT pinning_backends integer,
    OUT is_current boolean)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'pg_ringctl_ring_slots'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_ringctl_ring_slots() IS
'the slots of the rings that are read through now, except for slots that could not be shown (see pg_ringctl_stats_info)';
COMMENT ON FUNCTION pg_ringctl_ring_slots(integer) IS
'the slots of the rings of a process';

CREATE VIEW pg_ringctl_ring_slots AS
    SELECT s.ringid, s.pid, s.datid, d.datname, s.relid,
           n.nspname AS schemaname, c.relname, s.relforknumber,
           s.slot, s.bufferid, s.relblocknumber, s.holds_own_block,
           s.isdirty, s.usagecount, s.pinning_backends, s.is_current
      FROM pg_ringctl_ring_slots() s
           LEFT JOIN pg_catalog.pg_database d ON d.oid = s.datid
           LEFT JOIN pg_catalog.pg_class c
                  ON c.oid = s.relid AND (s.datid = 0::pg_catalog.oid OR d.datname = pg_catalog.current_database())
           LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace;

COMMENT ON VIEW pg_ringctl_ring_slots IS
'the slots of the rings that are read through now, one row for each slot, except for slots that could not be shown (see pg_ringctl_stats_info)';
COMMENT ON COLUMN pg_ringctl_ring_slots.ringid IS 'number of the ring, as in pg_ringctl_rings';
COMMENT ON COLUMN pg_ringctl_ring_slots.pid IS 'process ID of the process that reads';
COMMENT ON COLUMN pg_ringctl_ring_slots.datid IS 'OID of the database; 0 for relations shared by all databases';
COMMENT ON COLUMN pg_ringctl_ring_slots.datname IS 'name of the database; null for relations shared by all databases';
COMMENT ON COLUMN pg_ringctl_ring_slots.relid IS 'OID of the relation';
COMMENT ON COLUMN pg_ringctl_ring_slots.schemaname IS 'name of the schema that the relation is in; null if the relation is in another database, or not visible to this transaction';
COMMENT ON COLUMN pg_ringctl_ring_slots.relname IS 'name of the relation; null if it is in another database, or not visible to this transaction';
COMMENT ON COLUMN pg_ringctl_ring_slots.relforknumber IS 'fork of the block; null if relblocknumber is null';
COMMENT ON COLUMN pg_ringctl_ring_slots.slot IS 'number of the slot in the ring, counted from 0';
COMMENT ON COLUMN pg_ringctl_ring_slots.bufferid IS 'number of the buffer, as in pg_buffercache; null if the slot is empty';
COMMENT ON COLUMN pg_ringctl_ring_slots.relblocknumber IS 'block that was read into the buffer; null if the slot is empty, if the buffer''s page was evicted, if the buffer came with a page of another relation, or if the ring is only observed and the buffer was given to another page';
COMMENT ON COLUMN pg_ringctl_ring_slots.holds_own_block IS 'does the buffer still hold the block relblocknumber?';
COMMENT ON COLUMN pg_ringctl_ring_slots.isdirty IS 'is the page in the buffer dirty now?';
COMMENT ON COLUMN pg_ringctl_ring_slots.usagecount IS 'usage count of the buffer now';
COMMENT ON COLUMN pg_ringctl_ring_slots.pinning_backends IS 'number of processes that pin the buffer now';
COMMENT ON COLUMN pg_ringctl_ring_slots.is_current IS 'is this the last slot that was taken or passed over?';

--
-- progress of commands
--

CREATE FUNCTION pg_ringctl_progress(
    OUT pid integer,
    OUT datid oid,
    OUT relid oid,
    OUT command text,
    OUT phase text,
    OUT blocks_total bigint,
    OUT blocks_done bigint,
    OUT workers integer,
    OUT command_start timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_ringctl_progress() IS
'progress of the prewarms of all sessions';

CREATE VIEW pg_ringctl_progress AS
    SELECT p.pid, p.datid, d.datname, p.relid, n.nspname AS schemaname, c.relname,
           p.command, p.phase, p.blocks_total, p.blocks_done,
           100::double precision * p.blocks_done::double precision
           / NULLIF(p.blocks_total, 0::bigint)::double precision AS percent,
           p.workers, p.command_start
      FROM pg_ringctl_progress() p
           LEFT JOIN pg_catalog.pg_database d ON d.oid = p.datid
           LEFT JOIN pg_catalog.pg_class c
                  ON c.oid = p.relid AND (c.relisshared OR d.datname = pg_catalog.current_database())
           LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace;

COMMENT ON VIEW pg_ringctl_progress IS
'progress of the prewarms of all sessions, one row for each command that runs, unless track_activities is off in its session; as in pg_stat_progress_copy, a transaction goes on seeing what it has seen at first';
COMMENT ON COLUMN pg_ringctl_progress.pid IS 'process ID of the process that runs the command';
COMMENT ON COLUMN pg_ringctl_progress.datid IS 'OID of the database that the process is connected to';
COMMENT ON COLUMN pg_ringctl_progress.datname IS 'name of the database that the process is connected to';
COMMENT ON COLUMN pg_ringctl_progress.relid IS 'OID of the relation that is read now';
COMMENT ON COLUMN pg_ringctl_progress.schemaname IS 'name of the schema that the relation is in; null if the relation is in another database, or not visible to this transaction';
COMMENT ON COLUMN pg_ringctl_progress.relname IS 'name of the relation; null if it is in another database, or not visible to this transaction';
COMMENT ON COLUMN pg_ringctl_progress.command IS 'the command: prewarm, prewarm_all or prewarm_blocks';
COMMENT ON COLUMN pg_ringctl_progress.phase IS 'phase of the command: initializing, reading blocks or waiting for workers';
COMMENT ON COLUMN pg_ringctl_progress.blocks_total IS 'blocks that the command has to read, in all its relations, without those that do not fit if fit is stop; counted when the command begins; if a list does not fit and fit is stop, prewarm_blocks adds one when a block is listed again while it waits to be read';
COMMENT ON COLUMN pg_ringctl_progress.blocks_done IS 'blocks that all processes of the command have read, found in shared buffers, or asked the operating system for; prewarm_blocks also counts a block that is listed again while it waits to be read';
COMMENT ON COLUMN pg_ringctl_progress.percent IS 'blocks_done as a percentage of blocks_total; null if blocks_total is 0';
COMMENT ON COLUMN pg_ringctl_progress.workers IS 'number of parallel workers that help';
COMMENT ON COLUMN pg_ringctl_progress.command_start IS 'when the command began';

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
'buffers that escaped from a ring, are in no ring now, and still hold the page that they held when they escaped';

CREATE VIEW pg_ringctl_escapes AS
    SELECT e.bufferid, e.datid, d.datname, e.relid, n.nspname AS schemaname, c.relname, e.relforknumber,
           e.relblocknumber, e.reason, e.pid, e.escaped_at, e.isdirty,
           e.usagecount
      FROM pg_ringctl_escapes() e
           LEFT JOIN pg_catalog.pg_database d ON d.oid = e.datid
           LEFT JOIN pg_catalog.pg_class c
                  ON c.oid = e.relid AND (e.datid = 0::pg_catalog.oid OR d.datname = pg_catalog.current_database())
           LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace;

COMMENT ON VIEW pg_ringctl_escapes IS
'buffers that escaped from a ring, are in no ring now, and still hold the page that they held when they escaped; those whose pages are also used outside the ring (adopted) are shown, too';
COMMENT ON COLUMN pg_ringctl_escapes.bufferid IS 'number of the buffer, as in pg_buffercache';
COMMENT ON COLUMN pg_ringctl_escapes.datid IS 'OID of the database; 0 for relations shared by all databases';
COMMENT ON COLUMN pg_ringctl_escapes.datname IS 'name of the database; null for relations shared by all databases';
COMMENT ON COLUMN pg_ringctl_escapes.relid IS 'OID of the relation';
COMMENT ON COLUMN pg_ringctl_escapes.schemaname IS 'name of the schema that the relation is in; null if the relation is in another database, or not visible to this transaction';
COMMENT ON COLUMN pg_ringctl_escapes.relname IS 'name of the relation; null if it is in another database, or not visible to this transaction';
COMMENT ON COLUMN pg_ringctl_escapes.relforknumber IS 'fork of the relation';
COMMENT ON COLUMN pg_ringctl_escapes.relblocknumber IS 'block of the relation';
COMMENT ON COLUMN pg_ringctl_escapes.reason IS 'why the buffer escaped: pinned, dirty or adopted (the page is also used outside the ring, so it is useful)';
COMMENT ON COLUMN pg_ringctl_escapes.pid IS 'process ID of the process that had the ring';
COMMENT ON COLUMN pg_ringctl_escapes.escaped_at IS 'when the buffer escaped';
COMMENT ON COLUMN pg_ringctl_escapes.isdirty IS 'is the page dirty now?';
COMMENT ON COLUMN pg_ringctl_escapes.usagecount IS 'usage count of the buffer now';

CREATE FUNCTION pg_ringctl_reclaim(
    relation regclass,
    OUT buffers_evicted integer,
    OUT buffers_flushed integer,
    OUT buffers_skipped integer)
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

CREATE FUNCTION pg_ringctl_reclaim_all(
    OUT buffers_evicted integer,
    OUT buffers_flushed integer,
    OUT buffers_skipped integer)
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_ringctl_reclaim(regclass) IS
'evict the escaped buffers of a relation, or of all its partitions; buffers that are pinned, adopted or used again are left';
COMMENT ON FUNCTION pg_ringctl_reclaim_all() IS
'evict the escaped buffers of all relations; buffers that are pinned, adopted or used again are left';

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
'shared buffers of each relation of all databases, and how many of these are in rings or escaped from rings';

CREATE VIEW pg_ringctl_pollution AS
    SELECT p.reldatabase AS datid, d.datname, c.oid AS relid, n.nspname AS schemaname, c.relname,
           p.relfilenode, p.reltablespace, p.buffers, p.in_ring, p.escaped, p.dirty,
           p.buffers::double precision / s.setting::double precision AS pool_fraction
      FROM pg_ringctl_pollution() p
           CROSS JOIN (SELECT setting FROM pg_catalog.pg_settings
                        WHERE name = 'shared_buffers') s
           LEFT JOIN pg_catalog.pg_database d ON d.oid = p.reldatabase
           LEFT JOIN pg_catalog.pg_class c
                  ON c.oid = CASE WHEN p.reldatabase = 0::pg_catalog.oid OR
                                       d.datname = pg_catalog.current_database()
                                  THEN pg_catalog.pg_filenode_relation(p.reltablespace, p.relfilenode)::pg_catalog.oid
                             END
           LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace;

COMMENT ON VIEW pg_ringctl_pollution IS
'shared buffers of each relation of all databases, and how many of these are in rings or escaped from rings';
COMMENT ON COLUMN pg_ringctl_pollution.datid IS 'OID of the database; 0 for relations shared by all databases';
COMMENT ON COLUMN pg_ringctl_pollution.datname IS 'name of the database; null for relations shared by all databases';
COMMENT ON COLUMN pg_ringctl_pollution.relid IS 'OID of the relation; null if it is in another database, or if this session sees no relation with this file';
COMMENT ON COLUMN pg_ringctl_pollution.schemaname IS 'name of the schema that the relation is in; null if relid is null';
COMMENT ON COLUMN pg_ringctl_pollution.relname IS 'name of the relation; null if relid is null';
COMMENT ON COLUMN pg_ringctl_pollution.relfilenode IS 'number of the relation''s file';
COMMENT ON COLUMN pg_ringctl_pollution.reltablespace IS 'OID of the tablespace of the relation';
COMMENT ON COLUMN pg_ringctl_pollution.buffers IS 'buffers that hold pages of the relation';
COMMENT ON COLUMN pg_ringctl_pollution.in_ring IS 'buffers of the relation in the slots that pg_ringctl_ring_slots shows';
COMMENT ON COLUMN pg_ringctl_pollution.escaped IS 'buffers of the relation that escaped from a ring and are in no ring now, including those whose pages are also used outside the ring';
COMMENT ON COLUMN pg_ringctl_pollution.dirty IS 'dirty buffers of the relation';
COMMENT ON COLUMN pg_ringctl_pollution.pool_fraction IS 'buffers as a fraction of the pool, from 0 to 1';

CREATE FUNCTION pg_ringctl_map(width integer DEFAULT 64)
RETURNS SETOF text
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

CREATE FUNCTION pg_ringctl_map_relation(relation regclass, width integer DEFAULT 64)
RETURNS SETOF text
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_ringctl_map(integer) IS
'the buffer pool as a picture in text, with a legend';
COMMENT ON FUNCTION pg_ringctl_map_relation(regclass, integer) IS
'the buffer pool as a picture in text, in which the pages of a relation, or of all its partitions, stand out';

--
-- a query's scans
--

CREATE FUNCTION pg_ringctl_last_scans(
    OUT plan_node_id integer,
    OUT relid oid,
    OUT worker integer,
    OUT scans bigint,
    OUT ring_kb bigint,
    OUT ring_buffers integer,
    OUT source text,
    OUT elapsed_time double precision,
    OUT blocks bigint,
    OUT blks_hit bigint,
    OUT blks_read bigint,
    OUT fills bigint,
    OUT reuses bigint,
    OUT escapes_pinned bigint,
    OUT escapes_dirty bigint,
    OUT escapes_adopted bigint,
    OUT slots_lost bigint,
    OUT blks_unconsumed bigint,
    OUT wal_flushes bigint,
    OUT buffers_released bigint,
    OUT scan_sharing_blks_hit bigint,
    OUT scan_sharing_waits bigint,
    OUT scan_sharing_wait_time double precision)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_ringctl_last_scans() IS
'what scans did in the last statement of this session in which pg_ringctl gave a scan a ring, observed one or read ahead; one row for each scan and each process that took part, but only for the last 1000 of these (plan_node_id: null for a utility command; worker: number of the parallel worker, or null)';

CREATE FUNCTION pg_ringctl_resolve(
    relation regclass,
    OUT relid oid,
    OUT ring_kb bigint,
    OUT ring_buffers integer,
    OUT ring_buffers_max integer,
    OUT source text,
    OUT look_ahead_max integer,
    OUT threshold bigint,
    OUT blocks bigint,
    OUT reason text)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_ringctl_resolve(regclass) IS
'the ring that a sequential scan of the relation, or of each of its partitions, would get now, and why';

--
-- policies of relations
--

-- Each size may be given as text or as an integer, independently of the other.
CREATE FUNCTION pg_ringctl_set_policy(
    relation regclass,
    scan_ring "any" DEFAULT NULL,
    scan_threshold "any" DEFAULT NULL,
    dirty_pages text DEFAULT NULL,
    index_read_ahead boolean DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

-- The parser chooses this function if scan_ring is given, and if the sizes are text or of unknown type, such as
-- parameters of a prepared statement.
CREATE FUNCTION pg_ringctl_set_policy(
    relation regclass,
    scan_ring text,
    scan_threshold text DEFAULT NULL,
    dirty_pages text DEFAULT NULL,
    index_read_ahead boolean DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION pg_ringctl_set_policy(regclass, "any", "any", text, boolean) IS
'set the policy of a relation, and replace its old policy; each argument is the value that the parameter of the same name has for scans of the relation (null: the policy does not set the parameter)';
COMMENT ON FUNCTION pg_ringctl_set_policy(regclass, text, text, text, boolean) IS
'set the policy of a relation, with both sizes as text';

CREATE FUNCTION pg_ringctl_drop_policy(relation regclass)
RETURNS boolean
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION pg_ringctl_drop_policy(regclass) IS
'drop the policy of a relation, but not those of its ancestors; returns whether it had one';

CREATE FUNCTION pg_ringctl_drop_all_policies()
RETURNS bigint
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION pg_ringctl_drop_all_policies() IS
'drop the policies of all relations of this database; the user must own all relations that have one; returns how many policies were dropped';

CREATE FUNCTION pg_ringctl_parse_policy(
    label text,
    OUT scan_ring text,
    OUT scan_threshold text,
    OUT dirty_pages text,
    OUT index_read_ahead text)
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT IMMUTABLE PARALLEL SAFE;

COMMENT ON FUNCTION pg_ringctl_parse_policy(text) IS
'the settings of a policy that is given as the text of a security label; the view pg_ringctl_policies uses this function';

CREATE VIEW pg_ringctl_policies AS
    SELECT l.objoid AS relid, n.nspname AS schemaname, c.relname,
           p.scan_ring, p.scan_threshold, p.dirty_pages, p.index_read_ahead
      FROM pg_catalog.pg_seclabel l
           JOIN pg_catalog.pg_class c ON c.oid = l.objoid
           JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
           CROSS JOIN LATERAL pg_ringctl_parse_policy(l.label) p
     WHERE l.provider = 'pg_ringctl' AND l.objsubid = 0
           AND l.classoid = 'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid;

COMMENT ON VIEW pg_ringctl_policies IS
'policies of the relations of this database, one row for each relation that has a policy of its own';
COMMENT ON COLUMN pg_ringctl_policies.relid IS 'OID of the relation';
COMMENT ON COLUMN pg_ringctl_policies.schemaname IS 'name of the schema that the relation is in';
COMMENT ON COLUMN pg_ringctl_policies.relname IS 'name of the relation';
COMMENT ON COLUMN pg_ringctl_policies.scan_ring IS 'value of pg_ringctl.scan_ring for scans of the relation; null: as the parameter says';
COMMENT ON COLUMN pg_ringctl_policies.scan_threshold IS 'value of pg_ringctl.scan_threshold for scans of the relation; null: as the parameter says';
COMMENT ON COLUMN pg_ringctl_policies.dirty_pages IS 'value of pg_ringctl.dirty_pages for scans of the relation; null: as the parameter says';
COMMENT ON COLUMN pg_ringctl_policies.index_read_ahead IS 'value of pg_ringctl.index_read_ahead for index scans of the relation; null: as the parameter says';

-- This is not in C, because each DROP EXTENSION calls it, and must work without
-- the library.
CREATE FUNCTION pg_ringctl_warn_of_policies() RETURNS event_trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    policies bigint;
BEGIN
    IF (current_query() ~* '\mdrop\s+extension\M[^;]*\mpg_ringctl\M') IS NOT TRUE THEN
        RETURN;
    END IF;
    SELECT count(*) INTO policies FROM pg_seclabel WHERE provider = 'pg_ringctl';
    IF policies > 0 THEN
        RAISE WARNING '%', CASE policies
            WHEN 1 THEN '1 policy stays behind as a security label'
            ELSE format('%s policies stay behind as security labels', policies) END
            USING DETAIL = 'Where the library of pg_ringctl is not loaded, restoring a dump raises an error for each of these labels.',
                  HINT = 'Either run SELECT pg_ringctl_drop_all_policies() before DROP EXTENSION, '
                         'or run in psql after it: LOAD ''pg_ringctl''; SELECT format(''SECURITY LABEL FOR pg_ringctl ON %s %s IS NULL'', objtype, objname) '
                         'FROM pg_seclabels WHERE provider = ''pg_ringctl'' \gexec';
    END IF;
END $$;

COMMENT ON FUNCTION pg_ringctl_warn_of_policies() IS
'event trigger function: warns if policies stay behind when the client sends a DROP EXTENSION that names pg_ringctl';

CREATE EVENT TRIGGER pg_ringctl_warn_of_policies ON ddl_command_start
    WHEN TAG IN ('DROP EXTENSION')
    EXECUTE FUNCTION pg_ringctl_warn_of_policies();

COMMENT ON EVENT TRIGGER pg_ringctl_warn_of_policies IS
'warns if policies stay behind when the client sends a DROP EXTENSION that names pg_ringctl';

--
-- Members of pg_read_all_stats may use what shows the activity of other users.
-- Only the superuser may reset statistics and evict buffers, or grant that.
--

REVOKE ALL ON FUNCTION pg_ringctl_stats() FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_ringctl_stats_info() FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_ringctl_stats_reset(oid, oid) FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_ringctl_rings() FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_ringctl_progress() FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_ringctl_ring_slots() FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_ringctl_ring_slots(integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_ringctl_escapes() FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_ringctl_reclaim(regclass) FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_ringctl_reclaim_all() FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_ringctl_pollution() FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_ringctl_map(integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_ringctl_map_relation(regclass, integer) FROM PUBLIC;
REVOKE ALL ON pg_ringctl_stats FROM PUBLIC;
REVOKE ALL ON pg_ringctl_stats_info FROM PUBLIC;
REVOKE ALL ON pg_ringctl_rings FROM PUBLIC;
REVOKE ALL ON pg_ringctl_ring_slots FROM PUBLIC;
REVOKE ALL ON pg_ringctl_progress FROM PUBLIC;
REVOKE ALL ON pg_ringctl_escapes FROM PUBLIC;
REVOKE ALL ON pg_ringctl_pollution FROM PUBLIC;

GRANT EXECUTE ON FUNCTION pg_ringctl_stats() TO pg_read_all_stats;
GRANT EXECUTE ON FUNCTION pg_ringctl_stats_info() TO pg_read_all_stats;
GRANT EXECUTE ON FUNCTION pg_ringctl_rings() TO pg_read_all_stats;
GRANT EXECUTE ON FUNCTION pg_ringctl_progress() TO pg_read_all_stats;
GRANT EXECUTE ON FUNCTION pg_ringctl_ring_slots() TO pg_read_all_stats;
GRANT EXECUTE ON FUNCTION pg_ringctl_ring_slots(integer) TO pg_read_all_stats;
GRANT EXECUTE ON FUNCTION pg_ringctl_escapes() TO pg_read_all_stats;
GRANT EXECUTE ON FUNCTION pg_ringctl_pollution() TO pg_read_all_stats;
GRANT EXECUTE ON FUNCTION pg_ringctl_map(integer) TO pg_read_all_stats;
GRANT EXECUTE ON FUNCTION pg_ringctl_map_relation(regclass, integer) TO pg_read_all_stats;
GRANT SELECT ON pg_ringctl_stats TO pg_read_all_stats;
GRANT SELECT ON pg_ringctl_stats_info TO pg_read_all_stats;
GRANT SELECT ON pg_ringctl_rings TO pg_read_all_stats;
GRANT SELECT ON pg_ringctl_ring_slots TO pg_read_all_stats;
GRANT SELECT ON pg_ringctl_progress TO pg_read_all_stats;
GRANT SELECT ON pg_ringctl_escapes TO pg_read_all_stats;
GRANT SELECT ON pg_ringctl_pollution TO pg_read_all_stats;
GRANT SELECT ON pg_ringctl_policies TO PUBLIC;
