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
    OUT blocks bigint,
    OUT blks_hit bigint,
    OUT blks_read bigint,
    OUT ring_buffers integer,
    OUT reuses bigint,
    OUT escapes bigint,
    OUT elapsed_ms double precision)
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_ringctl_prewarm(regclass, integer, text, text, bigint, bigint) IS
'read blocks of a relation through a ring of ring_kb kB (0: no ring, -1: the ring that a sequential scan would get)';

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
    OUT ring_buffers integer,
    OUT ring_buffers_max integer,
    OUT wal_flushes bigint,
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
           s.escapes_adopted, s.slots_lost,
           s.ring_buffers, s.ring_buffers_max, s.wal_flushes,
           s.elapsed_ms, s.last_scan, s.stats_reset
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
COMMENT ON COLUMN pg_ringctl_stats.ring_buffers IS 'size in buffers of the last ring; 0 if there was none';
COMMENT ON COLUMN pg_ringctl_stats.ring_buffers_max IS 'size in buffers of the largest ring';
COMMENT ON COLUMN pg_ringctl_stats.wal_flushes IS 'times that WAL was flushed to keep dirty pages in the ring';
COMMENT ON COLUMN pg_ringctl_stats.elapsed_ms IS 'time that the scans ran, in all their processes, in milliseconds';
COMMENT ON COLUMN pg_ringctl_stats.last_scan IS 'when the last scan ended';
COMMENT ON COLUMN pg_ringctl_stats.stats_reset IS 'since when this row counts';

CREATE FUNCTION pg_ringctl_stats_info(
    OUT relations bigint,
    OUT dealloc bigint,
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
COMMENT ON COLUMN pg_ringctl_stats_info.stats_reset IS 'when all statistics were last reset';

CREATE FUNCTION pg_ringctl_stats_reset(
    datid oid DEFAULT 0,
    relid oid DEFAULT 0)
RETURNS timestamptz
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION pg_ringctl_stats_reset(oid, oid) IS
'reset the statistics of a relation, of a database, or all (0 stands for any)';

--
-- What shows other people's activity is for those who may read all
-- statistics; what changes things for others is the superuser's to grant.
--

REVOKE ALL ON FUNCTION pg_ringctl_stats() FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_ringctl_stats_info() FROM PUBLIC;
REVOKE ALL ON FUNCTION pg_ringctl_stats_reset(oid, oid) FROM PUBLIC;
REVOKE ALL ON pg_ringctl_stats FROM PUBLIC;
REVOKE ALL ON pg_ringctl_stats_info FROM PUBLIC;

GRANT EXECUTE ON FUNCTION pg_ringctl_stats() TO pg_read_all_stats;
GRANT EXECUTE ON FUNCTION pg_ringctl_stats_info() TO pg_read_all_stats;
GRANT SELECT ON pg_ringctl_stats TO pg_read_all_stats;
GRANT SELECT ON pg_ringctl_stats_info TO pg_read_all_stats;
