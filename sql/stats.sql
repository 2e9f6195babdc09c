-- stats: the cumulative counters, and how they are reset and bounded.
--
-- Claims: a row for each relation and kind of reader; a rescan is a scan, a
-- scan that fails is counted; a reset of one relation leaves the others; a
-- dropped table's row disappears; there are never more rows than
-- max_entries, and those least recently used go; track = off counts
-- nothing; who may see them.

SELECT count(*) AS columns, bool_and(col_description(attrelid, attnum) <> '') AS described
  FROM pg_attribute WHERE attrelid = 'pg_ringctl_stats'::regclass AND attnum > 0;

--
-- A row for each relation and kind
--
SET pg_ringctl.scan_threshold = 0;
SELECT fresh();
SELECT clock_timestamp() AS started \gset
SELECT count(*) FROM big;
SELECT count(*) FROM big;
SELECT count(*) FROM small;
SELECT blocks > 0 AS blocks FROM pg_ringctl_prewarm('small', 64);
SELECT blocks > 0 AS blocks FROM pg_ringctl_prewarm('small', 128);
SELECT blocks > 0 AS blocks FROM pg_ringctl_prewarm('small');
SELECT relname, kind, scans, workers_launched, blocks = scans * blocks(relid::regclass) AS blocks,
       blks_hit > 0 AS hits, blks_read > 0 AS "read", ring_buffers = 0 AS last_without,
       ring_buffers_max > 0 AS one_with, total_time > 0 AS elapsed,
       last_scan BETWEEN :'started' AND clock_timestamp() AS last_scan_sane,
       stats_reset < :'started' AS stats_reset_sane
  FROM pg_ringctl_stats ORDER BY relname, kind;
SELECT exact();
SELECT ring_buffers_max * current_setting('block_size')::int / 1024 AS max_kb FROM stats('small', 'prewarm');
SELECT datid = (SELECT oid FROM pg_database WHERE datname = current_database()) AS datid,
       datname = current_database() AS datname, relid::regclass = relname::regclass AS relid
  FROM pg_ringctl_stats GROUP BY 1, 2, 3;
SELECT entries, entries_dropped, stats_reset <= :'started' AS stats_reset_sane FROM pg_ringctl_stats_info;
-- Last scans are in the order they were made.
SELECT relname FROM pg_ringctl_stats WHERE kind = 'seqscan' ORDER BY last_scan;
SELECT count(*) FROM big;
SELECT relname FROM pg_ringctl_stats WHERE kind = 'seqscan' ORDER BY last_scan;

--
-- What is a scan
--
CREATE FUNCTION scans_of(query text, rel regclass DEFAULT 'small') RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_ringctl_stats_reset();
    EXECUTE query;
    RETURN coalesce((SELECT scans FROM stats(rel)), 0);
END $$;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
SET enable_memoize = off;
SELECT what, scans_of(query) AS scans
  FROM (VALUES
        ('one', 'SELECT count(*) FROM small'),
        ('two', 'SELECT count(*) FROM small UNION ALL SELECT count(*) FROM small'),
        ('rescans', 'SELECT count(*) FROM generate_series(1, 7) g, LATERAL
                       (SELECT FROM small s WHERE s.id > g OFFSET 0) l'),
        ('rescans of a self-join',
         'SELECT count(*) FROM small a, small b WHERE a.id <= 3 AND b.v = a.v AND a.id < 10'),
        ('never begun', 'SELECT count(*) FROM small WHERE false'),
        ('not called', 'SELECT count(*) FROM hot h, small s WHERE h.id < 0 AND s.v = h.v'),
        ('limit 0', 'SELECT * FROM small LIMIT 0'),
        ('exists', 'SELECT EXISTS (SELECT FROM small)'),
        ('explain', 'EXPLAIN SELECT count(*) FROM small'),
        ('explain analyze', 'EXPLAIN ANALYZE SELECT count(*) FROM small'),
        ('by ctid', 'SELECT * FROM small WHERE ctid = ''(0,1)'''),
        ('copy', 'COPY (SELECT * FROM small) TO PROGRAM ''cat > /dev/null'''),
        ('copy of the table', 'COPY small TO PROGRAM ''cat > /dev/null'''),
        ('create table as', 'CREATE TEMP TABLE t AS SELECT * FROM small'),
        ('analyze', 'ANALYZE small'),
        ('update', 'UPDATE small SET v = v WHERE id = 1'),
        ('do nothing', 'SELECT 1')) q (what, query);
RESET enable_hashjoin;
RESET enable_mergejoin;
RESET enable_material;
RESET enable_memoize;
DROP TABLE t;

--
-- A scan that fails in its middle.  In a new session, which has lent no rings.
--
\c -
SET pg_ringctl.scan_threshold = 0;
CREATE FUNCTION fail_at(int, int) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF $1 = $2 THEN RAISE 'failed'; END IF;
    RETURN true;
END $$;
SELECT fresh();
SELECT attempt('SELECT count(*) FROM big WHERE fail_at(id, 10000)');
SELECT scans, blocks BETWEEN 10000 / 4 AND blocks('big') - 1 AS half_the_blocks,
       blks_read > 0 AS "read", exact(), last_scan IS NOT NULL AS last_scan, hot_survives() FROM stats('big');
SELECT count(*) FROM big WHERE fail_at(id, 15000);
SELECT scans, exact() FROM stats('big');
-- one that failed inside another one that did not: two rings at a time, of a size that somebody chose
SET pg_ringctl.scan_ring = '1MB';
SELECT pg_ringctl_stats_reset() IS NOT NULL AS reset;
SELECT count(*), count(DISTINCT attempt(format('SELECT count(*) FROM big WHERE fail_at(id, %s * 500)', id)))
  FROM small WHERE id <= 5;
SELECT relname, scans, escapes_pinned, escapes_dirty FROM pg_ringctl_stats ORDER BY relname;
SELECT exact(), cached('big') <= (SELECT 2 * ring_buffers FROM stats('big')) AS in_two_rings;
RESET pg_ringctl.scan_ring;
-- a cursor that is closed by the end of its transaction
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM big;
MOVE 100 FROM c;
SELECT pg_ringctl_stats_reset() IS NOT NULL AS reset;
COMMIT;
SELECT scans, blocks > 0 AS blocks FROM stats('big');
-- and by a rollback, and by a failure
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM big;
MOVE 100 FROM c;
ROLLBACK;
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM big;
MOVE 100 FROM c;
SELECT 1/0;
ROLLBACK;
SELECT scans, exact() FROM stats('big');

--
-- Resets
--
SELECT fresh();
SELECT count(*) FROM big;
SELECT count(*) FROM small;
SELECT blocks > 0 AS blocks FROM pg_ringctl_prewarm('small', 64);
SELECT clock_timestamp() AS before \gset
SELECT oid AS datid FROM pg_database WHERE datname = current_database() \gset
-- one relation, of all kinds
SELECT pg_ringctl_stats_reset(:datid, 'small'::regclass) BETWEEN :'before' AND clock_timestamp() AS reset;
SELECT relname, kind, scans, blocks = 0 AS zero, ring_buffers = 0 AS no_ring, total_time = 0 AS no_time,
       last_scan IS NULL AS never_scanned, stats_reset >= :'before' AS reset
  FROM pg_ringctl_stats ORDER BY relname, kind;
SELECT count(*) FROM small;
SELECT relname, kind, scans FROM pg_ringctl_stats ORDER BY relname, kind;
-- one relation, of whatever database
SELECT pg_ringctl_stats_reset(relid => 'big'::regclass) > :'before' AS reset;
SELECT relname, kind, scans FROM pg_ringctl_stats ORDER BY relname, kind;
-- one that was never read, and a database without a row
\set VERBOSITY terse
SELECT pg_ringctl_stats_reset(:datid, 'hot'::regclass) > :'before' AS reset,
       pg_ringctl_stats_reset(1) > :'before' AS reset;
\set VERBOSITY default
SELECT relname, kind, scans FROM pg_ringctl_stats ORDER BY relname, kind;
-- this database
SELECT pg_ringctl_stats_reset(:datid) > :'before' AS reset;
SELECT relname, kind, scans FROM pg_ringctl_stats ORDER BY relname, kind;
SELECT stats_reset < :'before' AS info_not_reset, entries >= 3 AS rows_stay FROM pg_ringctl_stats_info;
-- all
SELECT pg_ringctl_stats_reset() > :'before' AS reset;
SELECT count(*) AS rows FROM pg_ringctl_stats;
SELECT entries, entries_dropped, stats_reset > :'before' AS reset FROM pg_ringctl_stats_info;
SELECT pg_ringctl_stats_reset(NULL) IS NULL AS "null", pg_ringctl_stats_reset(0, NULL) IS NULL AS "null";
-- "reset" is when it returned
SELECT pg_ringctl_stats_reset() AS reset \gset
SELECT stats_reset = :'reset' AS same FROM pg_ringctl_stats_info;

--
-- A dropped table's row disappears
--
CREATE TABLE gone AS SELECT * FROM small;
SELECT count(*) FROM gone;
SELECT relname, scans FROM pg_ringctl_stats ORDER BY relname;
BEGIN;
DROP TABLE gone;
SELECT count(*) AS rows FROM pg_ringctl_stats;
ROLLBACK;
SELECT relname, scans FROM pg_ringctl_stats ORDER BY relname;
DROP TABLE gone;
SELECT count(*) AS rows FROM pg_ringctl_stats;
-- A row stays when its table is rewritten or truncated.
CREATE TABLE changed AS SELECT * FROM small;
SELECT count(*) FROM changed;
VACUUM FULL changed;
SELECT count(*) FROM changed;
TRUNCATE changed;
SELECT count(*) FROM changed;
SELECT relname, scans FROM pg_ringctl_stats ORDER BY relname;
DROP TABLE changed;

--
-- max_entries
--
SELECT format('CREATE TABLE many_%s AS SELECT * FROM small WHERE id < 3', to_char(n, 'FM000'))
  FROM generate_series(1, 120) n \gexec
CREATE FUNCTION scan_many(first int, last int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    FOR n IN first .. last LOOP
        EXECUTE format('SELECT count(*) FROM many_%s', to_char(n, 'FM000'));
    END LOOP;
END $$;
ALTER SYSTEM SET pg_ringctl.max_entries = 100;
SELECT pg_reload_conf(), pg_sleep(0.5) IS NOT NULL AS loaded;
SELECT pg_ringctl_stats_reset() IS NOT NULL AS reset;
SELECT scan_many(1, 100);
SELECT entries, entries_dropped FROM pg_ringctl_stats_info;
-- What is read without a ring is not counted: no row has to go for it.
SELECT sum(p.blocks) FROM generate_series(1, 120) n, LATERAL pg_ringctl_prewarm(('many_' || to_char(n, 'FM000'))::regclass) p;
SELECT entries, entries_dropped FROM pg_ringctl_stats_info;
-- 1 to 10 are used again; 20 more have to go, five at a time: 11 to 30
SELECT scan_many(1, 10);
SELECT scan_many(101, 120);
SELECT entries, entries_dropped FROM pg_ringctl_stats_info;
SELECT string_agg(n::text, ' ' ORDER BY n) AS gone FROM generate_series(1, 120) n
 WHERE NOT EXISTS (SELECT FROM stats(('many_' || to_char(n, 'FM000'))::regclass));
SELECT scans, count(*), min(relname), max(relname) FROM pg_ringctl_stats GROUP BY scans ORDER BY scans;
-- Round and round
SELECT scan_many(1, 120), scan_many(1, 120);
SELECT entries, entries_dropped FROM pg_ringctl_stats_info;
SELECT count(*), min(scans) > 0 AS scanned, exact() FROM pg_ringctl_stats;
-- A row that came back counts from then on.
SELECT count(DISTINCT stats_reset) > 1 AS since_when,
       min(stats_reset) >= (SELECT stats_reset FROM pg_ringctl_stats_info) AS sane FROM pg_ringctl_stats;
-- More are allowed again.
ALTER SYSTEM SET pg_ringctl.max_entries = 5000;
SELECT pg_reload_conf(), pg_sleep(0.5) IS NOT NULL AS loaded;
SELECT scan_many(1, 120);
SELECT entries FROM pg_ringctl_stats_info;
-- With fewer, as many go as have to, when the next one comes.
ALTER SYSTEM SET pg_ringctl.max_entries = 110;
SELECT pg_reload_conf(), pg_sleep(0.5) IS NOT NULL AS loaded;
SELECT count(*) FROM small;
SELECT entries FROM pg_ringctl_stats_info;
ALTER SYSTEM RESET pg_ringctl.max_entries;
SELECT pg_reload_conf(), pg_sleep(0.5) IS NOT NULL AS loaded;
SELECT format('DROP TABLE many_%s', to_char(n, 'FM000')) FROM generate_series(1, 120) n \gexec
SELECT relname FROM pg_ringctl_stats;
SELECT entries FROM pg_ringctl_stats_info;	-- of dropped ones, too
SELECT pg_ringctl_stats_reset() IS NOT NULL AS reset;
SELECT entries FROM pg_ringctl_stats_info;

--
-- track
--
SET pg_ringctl.track = off;
SELECT fresh();
SELECT count(*) FROM big;
SELECT blocks > 0 AS blocks FROM pg_ringctl_prewarm('small', 64);
SELECT count(*) AS rows, hot_survives() FROM pg_ringctl_stats;
RESET pg_ringctl.track;
SELECT count(*) FROM big;
SELECT relname, scans FROM pg_ringctl_stats;
-- A ring knows its own reads, also without the server's counters.
SET track_counts = off;
SELECT fresh();
SELECT count(*) FROM big;
SELECT blks_read = blocks('big') AS all_read, exact() FROM stats('big');
RESET track_counts;

--
-- A function is of another version than the library
--
CREATE FUNCTION older_than_library(OUT a bigint, OUT b bigint, OUT c bigint, OUT d bigint)
AS 'pg_ringctl', 'pg_ringctl_stats_info' LANGUAGE C;
SELECT * FROM older_than_library();
CREATE FUNCTION newer_than_library(OUT a bigint, OUT b bigint, OUT c bigint, OUT d bigint, OUT e timestamptz, OUT f bigint)
AS 'pg_ringctl', 'pg_ringctl_stats_info' LANGUAGE C;
SELECT * FROM newer_than_library();
DROP FUNCTION older_than_library, newer_than_library;

--
-- Who may see and reset
--
CREATE ROLE regress_ringctl_user;
CREATE FUNCTION as_user() RETURNS TABLE (what text, outcome text) LANGUAGE sql
BEGIN ATOMIC
    SELECT c, attempt(c) FROM unnest('{SELECT * FROM pg_ringctl_stats,
                                       SELECT * FROM pg_ringctl_stats_info,
                                       SELECT * FROM pg_ringctl_stats(),
                                       SELECT * FROM pg_ringctl_stats_info(),
                                       SELECT pg_ringctl_stats_reset()}'::text[]) c;
END;
SET ROLE regress_ringctl_user;
SELECT * FROM as_user();
RESET ROLE;
GRANT pg_read_all_stats TO regress_ringctl_user;
SET ROLE regress_ringctl_user;
SELECT * FROM as_user();
RESET ROLE;
GRANT EXECUTE ON FUNCTION pg_ringctl_stats_reset(oid, oid) TO regress_ringctl_user;
SET ROLE regress_ringctl_user;
SELECT attempt('SELECT pg_ringctl_stats_reset()');
-- Whoever scans is counted.
RESET ROLE;
GRANT SELECT ON small TO regress_ringctl_user;
SET ROLE regress_ringctl_user;
SELECT count(*) FROM small;
RESET ROLE;
SELECT relname, scans FROM pg_ringctl_stats;
REVOKE ALL ON FUNCTION pg_ringctl_stats_reset(oid, oid) FROM regress_ringctl_user;
REVOKE ALL ON small FROM regress_ringctl_user;
DROP ROLE regress_ringctl_user;

DROP FUNCTION scans_of, fail_at, scan_many, as_user;

--
-- Relations that all databases share are in none
--
SELECT fresh();
SELECT blocks > 0 AS "read" FROM pg_ringctl_prewarm('pg_database', 64);
SELECT blocks > 0 AS "read" FROM pg_ringctl_prewarm('pg_class', 64);
SELECT datid <> 0 AS datid, datname = current_database() AS datname, schemaname, relname, kind, scans FROM pg_ringctl_stats ORDER BY relname;
\set here :DBNAME
\c postgres
SELECT count(*) > 0 AS catalog FROM pg_class;
\c :here
SELECT datid, relname, scans FROM pg_ringctl_stats WHERE datid = 0;
SELECT pg_ringctl_stats_reset(0, 'pg_database'::regclass) IS NOT NULL AS reset;
SELECT relname, scans FROM pg_ringctl_stats ORDER BY relname;
