-- policies: what the parameters are for scans of one relation.
--
-- Claims: a policy is set, replaced and dropped as a whole, by function or by
-- label, with its values checked; it is what the next scan goes by, of the
-- relation and of its descendants that have none nearer; it follows the
-- relation through whatever is done to it, and the transaction it is set in; it
-- comes before the parameter, and max_ring and the mode before it; its owner
-- sets it, everybody sees it.

VACUUM (FULL, FREEZE, ANALYZE) small;	-- others have changed it
CREATE VIEW policies AS
    SELECT relid::regclass AS relation, scan_ring, scan_threshold, dirty_pages
      FROM pg_ringctl_policies ORDER BY relid::regclass::text COLLATE "C";

-- What the next scans would get.  A size that is chosen depends on the server's major.
CREATE FUNCTION resolve(VARIADIC relations regclass[])
RETURNS TABLE (relation regclass, source text, kb bigint, threshold bigint, reason text) LANGUAGE sql
BEGIN ATOMIC
    SELECT r, p.source, CASE WHEN p.source = 'policy' THEN p.ring_kb END, p.threshold,
           regexp_replace(p.reason, ':.*', '')
      FROM unnest(relations) WITH ORDINALITY u (r, n), pg_ringctl_resolve(r) p ORDER BY n;
END;

-- What those of the last statement got.
CREATE VIEW got AS
    SELECT relid::regclass AS relation, source, CASE WHEN source = 'policy' THEN ring_kb END AS kb
      FROM pg_ringctl_last_scans() ORDER BY relid::regclass::text COLLATE "C";

--
-- Set, replace, drop
--
SELECT * FROM pg_ringctl_policies;
SELECT pg_ringctl_set_policy('small', '128kB', '0', 'leave');
SELECT schemaname, relname, relid = 'small'::regclass AS relid, scan_ring, scan_threshold, dirty_pages
  FROM pg_ringctl_policies;
SELECT provider, objtype, objname, label FROM pg_seclabels WHERE provider = 'pg_ringctl';
SELECT * FROM resolve('small', 'big');
-- the whole of it is replaced
SELECT pg_ringctl_set_policy('small', scan_threshold => '0');
SELECT * FROM policies;
SELECT * FROM resolve('small');
SELECT pg_ringctl_set_policy('small', '64kB');
SELECT * FROM policies;
SELECT * FROM resolve('small');
-- one that sets nothing is one
SELECT pg_ringctl_set_policy('small');
SELECT * FROM policies;
SELECT label = '' AS nothing FROM pg_seclabels WHERE provider = 'pg_ringctl';
SELECT * FROM resolve('small');
SELECT pg_ringctl_drop_policy('small'), pg_ringctl_drop_policy('big');
SELECT pg_ringctl_drop_policy('small');
SELECT * FROM policies;
-- in every unit that the parameter takes
DO $$
DECLARE
    v record;
    r record;
BEGIN
    FOR v IN VALUES ('1MB', '0'), ('512', '19'), (' 0.25 MB ', '8kB'), ('0x100', '0.125MB') LOOP
        PERFORM pg_ringctl_set_policy('small', v.column1, v.column2);
        SELECT * INTO r FROM resolve('small');
        RAISE NOTICE '"%", "%": % kB above % blocks', v.column1, v.column2, r.kb, r.threshold;
    END LOOP;
END $$;
-- as text or as integers, the one as this and the other as that; shown as the parameter is
CREATE FUNCTION set_to(args text) RETURNS TABLE (was text, ring text, threshold text, dirty text) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_ringctl_drop_policy('small');
    was := attempt(format('SELECT pg_ringctl_set_policy(''small'', %s)', args));
    SELECT scan_ring, scan_threshold, dirty_pages INTO ring, threshold, dirty FROM policies;
    RETURN NEXT;
END $$;
SELECT args, s.*
  FROM unnest(ARRAY['1024', '1024, 0', $$'256kB', 0$$, $$256, '1GB'$$, '0', '-1, -1', 'scan_threshold => 0',
                    $$scan_threshold => '16MB'$$, 'NULL, 5', 'NULL, 1024', $$NULL, NULL, 'LEAVE'$$, $$dirty_pages => 'Write'$$,
                    '1024::smallint', '1024::bigint', $$'2048'::varchar, '3'::char(4)$$, $$'1 MB'::text, 7::bigint$$,
                    '63', '3000000000', '-2', 'NULL, -2', 'NULL, 3000000000', '1024.0', 'now()', $$'0.2kB'$$, $$'0.4', 0$$, $$NULL, '1kB'$$]) args,
       set_to(args) s;
PREPARE set_to_unknown AS SELECT pg_ringctl_set_policy('small', $1, $2);
EXECUTE set_to_unknown('1024', '0');
SELECT * FROM policies;
DEALLOCATE set_to_unknown;
DROP FUNCTION set_to;
-- all of them
SELECT pg_ringctl_set_policy('big', '0');
SELECT pg_ringctl_drop_all_policies();
SELECT * FROM policies;
SELECT pg_ringctl_drop_all_policies();

--
-- What is refused
--
SELECT pg_ringctl_set_policy('small', '63kB');
SELECT pg_ringctl_set_policy('small', '17GB');
SELECT pg_ringctl_set_policy('small', 'huge');
SELECT pg_ringctl_set_policy('small', scan_threshold => '-2');
SELECT pg_ringctl_set_policy('small', dirty_pages => 'keep');
SELECT pg_ringctl_set_policy('small', '1MB, scan_threshold=0');
SELECT args, attempt(format('SELECT pg_ringctl_set_policy(%s)', args))
  FROM unnest(ARRAY[$$'small', ''$$, $$'small', '-2'$$, $$'small', '1'$$, $$'small', '1 parsec'$$,
                    $$'small', NULL, '1e99'$$, $$'small', NULL, ''$$, $$'small', NULL, NULL, ''$$,
                    $$'small', NULL, NULL, 'leave, dirty_pages=write'$$,
                    $$NULL, '1MB'$$, $$NULL$$]) args;
SELECT pg_ringctl_drop_policy(NULL) IS NULL AS "null";
SELECT * FROM policies;

-- labels by hand
CREATE FUNCTION label(label text) RETURNS TABLE (was text, ring text, threshold text, dirty text) LANGUAGE plpgsql AS $$
BEGIN
    was := attempt(format('SECURITY LABEL FOR pg_ringctl ON TABLE small IS %L', label));
    SELECT scan_ring, scan_threshold, dirty_pages INTO ring, threshold, dirty FROM policies;
    RETURN NEXT;
    EXECUTE 'SECURITY LABEL FOR pg_ringctl ON TABLE small IS NULL';
END $$;
SELECT quote_literal(label) AS label, l.*
  FROM unnest(ARRAY['scan_ring=4MB, scan_threshold=0, dirty_pages=leave', 'dirty_pages=leave,scan_ring=4MB',
                    E'  Scan_Ring =\t4 MB ,\n SCAN_THRESHOLD= -1', 'dirty_pages = LEAVE', '', E' \t\n']) label,
       label(label) l;
SELECT l.was
  FROM unnest(ARRAY['scan_ring', 'scan_ring=', 'scan_ring=1', '=4MB', ',', 'scan_ring=4MB,', ',scan_ring=4MB',
                    'scan_ring=4MB;dirty_pages=leave', 'scan_ring=4MB dirty_pages=leave', 'scan_ring=4MB,,dirty_pages=leave',
                    'scan_ring==4MB', 'scan_ring:4MB', '"scan_ring"=4MB', 'scan_ring=''4MB''', 'max_ring=4MB',
                    'pg_ringctl.scan_ring=4MB', 'scan_rings=4MB', 'scan_ring=4MB, Scan_Ring=4MB',
                    'dirty_pages=leave, scan_ring=0, dirty_pages=write', 'dirty_pages=0', 'scan_threshold=most',
                    'scan_threshold=99999999999', 'on', 'scan_ring=' || repeat('0', 1000)]) label,
       label(label) l;
SELECT * FROM policies;
-- a policy that is refused leaves the one that was there
SELECT pg_ringctl_set_policy('small', '64kB');
SELECT attempt($$SELECT pg_ringctl_set_policy('small', '1kB')$$) <> 'works' AS refused,
       attempt($$SECURITY LABEL FOR pg_ringctl ON TABLE small IS 'nonsense'$$) <> 'works' AS refused;
SELECT * FROM policies;
SECURITY LABEL FOR pg_ringctl ON TABLE small IS NULL;
SELECT * FROM policies;
-- a label's settings; what is none is left out
SELECT label, p.*
  FROM (VALUES ('scan_ring=4MB, DIRTY_PAGES = leave'), (''), ('nonsense, scan_threshold=7'), ('scan_ring=x'), (NULL)) v (label),
       pg_ringctl_parse_policy(label) p;

-- what can have none
CREATE VIEW a_view AS SELECT 1 AS one;
CREATE SEQUENCE a_sequence;
CREATE FOREIGN DATA WRAPPER regress_ringctl_wrapper;
CREATE SERVER regress_ringctl_server FOREIGN DATA WRAPPER regress_ringctl_wrapper;
CREATE FOREIGN TABLE a_foreign_table (one int) SERVER regress_ringctl_server;
CREATE INDEX an_index ON small (id);
CREATE TABLE a_parent (id int) PARTITION BY RANGE (id);
CREATE INDEX a_parents_index ON a_parent (id);
CREATE TYPE a_type AS (one int);
SELECT pg_ringctl_set_policy('a_view', '1MB');
SELECT relation, attempt(format('SELECT pg_ringctl_set_policy(%L)', relation)) AS set,
       attempt(format('SELECT pg_ringctl_drop_policy(%L)', relation)) AS drop
  FROM unnest('{a_view, a_sequence, a_foreign_table, an_index, a_parents_index, a_type, nobody}'::text[]) relation;
SELECT object, attempt(format('SECURITY LABEL FOR pg_ringctl ON %s IS %L', object, 'scan_ring=0')) AS label
  FROM unnest('{VIEW a_view, SEQUENCE a_sequence, FOREIGN TABLE a_foreign_table, TABLE an_index, COLUMN small.id,
                SCHEMA public, TYPE a_type, FUNCTION label(text), TABLE a_view,
                MATERIALIZED VIEW small}'::text[]) object;
SELECT attempt('SECURITY LABEL FOR pg_ringctl ON COLUMN small.id IS NULL') AS label;
DROP VIEW a_view;
DROP SEQUENCE a_sequence;
DROP FOREIGN DATA WRAPPER regress_ringctl_wrapper CASCADE;
DROP INDEX an_index;
DROP TABLE a_parent;
DROP TYPE a_type;
SELECT count(*) AS labels FROM pg_seclabels;

--
-- What a scan really gets
--
-- a small table goes through a ring, and the others' pages stay
SELECT fresh();
SELECT pg_ringctl_set_policy('small', '128kB', '0');
SELECT pg_ringctl_set_policy('big', '512kB');
SELECT count(*) FROM small;
SELECT count(*) FROM small;
SELECT count(*) FROM big;
SELECT relname, scans, ring_buffers, blks_read > 0 AS "read" FROM pg_ringctl_stats ORDER BY relname;
SELECT cached('small') <= 16 AS small_in_ring, cached('big') <= 64 AS big_in_ring, hot_survives(), exact();
-- a table that fits is kept: without a ring, all of the second scan is there
CREATE TABLE fits AS SELECT * FROM big WHERE id <= 4 * 600;
VACUUM (FULL, FREEZE, ANALYZE) fits;
SET pg_ringctl.scan_threshold = 0;
SELECT pg_ringctl_set_policy('fits', '0');
SELECT fresh();
SELECT count(*) FROM fits;
SELECT cached('fits') = blocks('fits') AS cached FROM stats('fits');
SELECT pg_ringctl_stats_reset() IS NOT NULL AS reset;
SELECT count(*) FROM fits;
SELECT ring_buffers, blks_hit = blocks('fits') AS kept, blks_read FROM stats('fits');
SELECT * FROM got;
-- -1 is a ring that sizes itself, whatever the parameter says
SET pg_ringctl.scan_ring = '64kB';
SELECT pg_ringctl_set_policy('fits', '-1');
SELECT * FROM resolve('fits');
SELECT fresh();
SELECT count(*) FROM fits;
SELECT ring_buffers > 0 AS ring, ring_buffers = 8 AS parameters, exact() FROM stats('fits');
SELECT * FROM got;
SELECT pg_ringctl_drop_policy('fits');
SELECT count(*) FROM fits;
SELECT relation, source FROM got;
RESET pg_ringctl.scan_ring;
-- -1 is the server's threshold
SELECT pg_ringctl_set_policy('fits', scan_threshold => '-1');
SELECT * FROM resolve('fits');
RESET pg_ringctl.scan_threshold;
-- and what is as large as the threshold gets none
SELECT pg_ringctl_set_policy('fits', '64kB', blocks('fits')::text);
SELECT * FROM resolve('fits');
SELECT pg_ringctl_set_policy('fits', '64kB', (blocks('fits') - 1)::text);
SELECT * FROM resolve('fits');
DROP TABLE fits;

-- pages that a scan dirties are written, or left
CREATE TABLE dirtied (LIKE big);
CREATE PROCEDURE load_dirtied() LANGUAGE plpgsql AS $$
BEGIN
    TRUNCATE dirtied;
    INSERT INTO dirtied SELECT * FROM big WHERE id <= 4 * 600;
    COMMIT;
    CHECKPOINT;
    PERFORM fresh();
END $$;
SELECT pg_ringctl_set_policy('dirtied', '128kB', '0', 'leave');
CALL load_dirtied();
SELECT count(*) FROM dirtied;
SELECT ring_buffers, escapes_dirty > 0.5 * blks_read AS left_behind, wal_flushes > 0 AS flushed, exact()
  FROM stats('dirtied');
SET pg_ringctl.dirty_pages = leave;
SELECT pg_ringctl_set_policy('dirtied', '128kB', '0', 'write');
CALL load_dirtied();
SELECT count(*) FROM dirtied;
SELECT ring_buffers, escapes_dirty, wal_flushes > 0 AS flushed, exact() FROM stats('dirtied');
RESET pg_ringctl.dirty_pages;
DROP TABLE dirtied;
DROP PROCEDURE load_dirtied;

-- a prewarm that asks for what a scan would get
SELECT pg_ringctl_set_policy('small', '64kB', '0');
SELECT blocks = blocks('small') AS blocks, ring_buffers FROM pg_ringctl_prewarm('small', -1);
SELECT pg_ringctl_set_policy('small', '0', '0');
SELECT blocks = blocks('small') AS blocks, ring_buffers FROM pg_ringctl_prewarm('small', -1);
SELECT pg_ringctl_set_policy('small', '64kB', '20');
SELECT blocks = blocks('small') AS blocks, ring_buffers FROM pg_ringctl_prewarm('small', -1);
-- one that names its size gets that
SELECT ring_buffers FROM pg_ringctl_prewarm('small', 256);
SELECT ring_buffers FROM pg_ringctl_prewarm('small');

-- in parallel workers
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET parallel_leader_participation = off;
BEGIN;
SELECT pg_ringctl_set_policy('big', '256kB');	-- theirs, too, before it is committed
SELECT count(*) FROM big;
SELECT worker, source, ring_kb FROM pg_ringctl_last_scans() ORDER BY worker;
ROLLBACK;
SELECT count(*) FROM big;
SELECT worker, source, ring_kb FROM pg_ringctl_last_scans() ORDER BY worker;
RESET ALL;
SELECT pg_ringctl_drop_all_policies();

--
-- What comes before what
--
SET pg_ringctl.scan_ring = '256kB';
SET pg_ringctl.scan_threshold = 10;
SELECT * FROM resolve('small');
SELECT pg_ringctl_set_policy('small', '128kB');
SELECT * FROM resolve('small');
SELECT pg_ringctl_set_policy('small', NULL, '19');
SELECT * FROM resolve('small');
SELECT pg_ringctl_set_policy('small', '0', '9');
SELECT * FROM resolve('small');
SELECT pg_ringctl_set_policy('small', '128kB', '20');
SELECT * FROM resolve('small');
SET pg_ringctl.use_policies = off;
SELECT * FROM resolve('small');
SELECT count(*) FROM small;
SELECT source, ring_kb FROM pg_ringctl_last_scans();
RESET pg_ringctl.use_policies;
SELECT count(*) FROM small;
SELECT source, ring_kb FROM pg_ringctl_last_scans();
-- max_ring caps
SELECT pg_ringctl_set_policy('small', '16GB', '0');
SELECT * FROM resolve('small');
SET pg_ringctl.max_ring = '96kB';
SELECT source, ring_kb, reason FROM pg_ringctl_resolve('small');
SELECT count(*) FROM small;
SELECT source, ring_kb FROM pg_ringctl_last_scans();
SELECT pg_ringctl_set_policy('small', '-1', '0');
SELECT source, ring_kb <= 96 AS capped, reason FROM pg_ringctl_resolve('small');
SELECT pg_ringctl_set_policy('small', '64kB', '0');
SELECT source, ring_kb, reason FROM pg_ringctl_resolve('small');
SELECT pg_ringctl_set_policy('small', '0', '0');
SELECT source, ring_kb, reason FROM pg_ringctl_resolve('small');
RESET pg_ringctl.max_ring;
-- in observe mode, and switched off, the ring is the server's
SELECT pg_ringctl_set_policy('small', '64kB', '0');
SELECT pg_ringctl_set_policy('big', '64kB', '1GB');
SET pg_ringctl.mode = observe;
SELECT relation, source, threshold, reason FROM resolve('small', 'big');
SELECT (SELECT count(*) FROM big), (SELECT count(*) FROM small);
SELECT relation, source FROM got;
SET pg_ringctl.mode = off;
SELECT relation, source, threshold, reason FROM resolve('small', 'big');
RESET pg_ringctl.mode;
SELECT (SELECT count(*) FROM big), (SELECT count(*) FROM small);
SELECT relation, source, kb FROM got;
RESET ALL;
-- the parameters of a role and of a database are parameters
SELECT current_user AS me, current_database() AS here \gset
ALTER ROLE :"me" IN DATABASE :"here" SET pg_ringctl.scan_ring = '256kB';
ALTER DATABASE :"here" SET pg_ringctl.scan_threshold = 0;
SELECT pg_ringctl_drop_policy('big');
\c -
SELECT source, ring_kb, threshold FROM pg_ringctl_resolve('big');
SELECT * FROM resolve('small');
ALTER ROLE :"me" IN DATABASE :"here" SET pg_ringctl.use_policies = off;
\c -
SELECT source, ring_kb, threshold FROM pg_ringctl_resolve('small');
ALTER ROLE :"me" IN DATABASE :"here" RESET ALL;
ALTER DATABASE :"here" RESET ALL;
\c -
SELECT source, threshold FROM pg_ringctl_resolve('big');
SELECT * FROM resolve('small');
SELECT pg_ringctl_drop_all_policies();

--
-- Changes reach what is prepared already
--
SET plan_cache_mode = force_generic_plan;
PREPARE scan AS SELECT count(*) FROM small WHERE id > $1;
CREATE FUNCTION scan() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    RETURN count(*) FROM small;
END $$;
EXECUTE scan(0);
SELECT relation, source FROM got;
SELECT scan();
SELECT relation, source FROM got;
SELECT pg_ringctl_set_policy('small', '64kB', '0');
EXECUTE scan(0);
SELECT * FROM got;
SELECT scan();
SELECT * FROM got;
SELECT pg_ringctl_set_policy('small', '128kB', '0');
EXECUTE scan(0);
SELECT * FROM got;
SELECT scan();
SELECT * FROM got;
SELECT generic_plans, custom_plans FROM pg_prepared_statements WHERE name = 'scan';
-- within one statement of the client's
DO $$
DECLARE
    ring text;
BEGIN
    FOREACH ring IN ARRAY '{64kB, 256kB, 0}'::text[] LOOP
        PERFORM pg_ringctl_set_policy('small', ring, '0');
        PERFORM scan();
        RAISE NOTICE '%: %', ring, (SELECT ring_kb FROM pg_ringctl_resolve('small'));
    END LOOP;
END $$;
SELECT source, ring_kb FROM pg_ringctl_last_scans() ORDER BY ring_kb;
-- a cursor goes on as it began
SELECT pg_ringctl_set_policy('big', '64kB');
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM big;
MOVE 100 FROM c;
SELECT pg_ringctl_set_policy('big', '128kB');
MOVE 10000 FROM c;
CLOSE c;
SELECT * FROM got;
COMMIT;
SELECT count(*) FROM big;
SELECT * FROM got;
DEALLOCATE scan;
RESET plan_cache_mode;
SELECT pg_ringctl_drop_all_policies();

--
-- Transactions
--
SELECT pg_ringctl_set_policy('small', '64kB', '0');
BEGIN;
SELECT pg_ringctl_set_policy('small', '128kB', '0');
SELECT * FROM resolve('small');
ROLLBACK;
SELECT * FROM resolve('small');
BEGIN;
SELECT pg_ringctl_drop_policy('small');
SELECT * FROM resolve('small');
ROLLBACK;
SELECT * FROM resolve('small');
BEGIN;
SELECT pg_ringctl_set_policy('small', '128kB', '0');
SAVEPOINT one;
SELECT pg_ringctl_set_policy('small', '256kB', '0');
SELECT * FROM resolve('small');
ROLLBACK TO one;
SELECT * FROM resolve('small');
SAVEPOINT two;
SELECT pg_ringctl_drop_policy('small');
RELEASE two;
SELECT * FROM resolve('small');
ROLLBACK TO one;
SELECT * FROM resolve('small');
SAVEPOINT three;
SELECT pg_ringctl_set_policy('small', '512kB', '0');
SELECT count(*) FROM small;
SELECT * FROM got;
SELECT 1 / 0;
ROLLBACK TO three;
SELECT count(*) FROM small;
SELECT * FROM got;
COMMIT;
SELECT * FROM resolve('small');
-- one that was given to a relation that never was
BEGIN;
CREATE TABLE never AS SELECT 1 AS one;
SELECT pg_ringctl_set_policy('never', '64kB', '0');
SELECT * FROM resolve('never');
ROLLBACK;
SELECT * FROM policies;
SELECT pg_ringctl_drop_all_policies();

--
-- What is done to the relation
--
CREATE TABLE moved AS SELECT * FROM small;
ALTER TABLE moved ADD PRIMARY KEY (id);
SELECT pg_ringctl_set_policy('moved', '64kB', '0');
CREATE SCHEMA elsewhere;
CREATE ROLE regress_ringctl_owner;
ALTER TABLE moved RENAME TO renamed;
SELECT * FROM resolve('renamed');
ALTER TABLE renamed SET SCHEMA elsewhere;
SELECT schemaname, relname, scan_ring, scan_threshold FROM pg_ringctl_policies;
SELECT * FROM resolve('elsewhere.renamed');
ALTER TABLE elsewhere.renamed SET SCHEMA public;
ALTER TABLE renamed RENAME TO moved;
ALTER TABLE moved OWNER TO regress_ringctl_owner;
SELECT * FROM resolve('moved');
TRUNCATE moved;
INSERT INTO moved SELECT * FROM small;
SELECT * FROM resolve('moved');
CLUSTER moved USING moved_pkey;
SELECT * FROM resolve('moved');
VACUUM FULL moved;
SELECT * FROM resolve('moved');
ALTER TABLE moved ALTER id TYPE bigint, ADD COLUMN more int DEFAULT random();
ALTER TABLE moved SET UNLOGGED;
SELECT count(*) FROM moved;
SELECT * FROM got;
SELECT * FROM policies;
-- a copy of the table's columns has none
CREATE TABLE alike (LIKE moved INCLUDING ALL);
INSERT INTO alike SELECT * FROM moved;
SELECT relation, source FROM resolve('alike');
DROP TABLE alike;
-- names that need quotes
ALTER TABLE moved RENAME TO "Moved, = 'there'";
SELECT * FROM resolve('"Moved, = ''there''"');
DROP TABLE "Moved, = 'there'";
SELECT * FROM policies;
SELECT count(*) AS labels FROM pg_seclabels;
DROP SCHEMA elsewhere;

-- materialized views
CREATE MATERIALIZED VIEW matview AS SELECT id FROM small;
SELECT pg_ringctl_set_policy('matview', '64kB', '0');
REFRESH MATERIALIZED VIEW matview;
SELECT * FROM resolve('matview');
SECURITY LABEL FOR pg_ringctl ON MATERIALIZED VIEW matview IS 'scan_ring=128kB, scan_threshold=0';
SELECT count(*) FROM matview;
SELECT * FROM got;
DROP MATERIALIZED VIEW matview;
SELECT * FROM policies;

-- what scans of ours don't touch
CREATE TEMP TABLE temporary AS SELECT 1 AS one;
SELECT pg_ringctl_set_policy('temporary', '64kB', '0');
SELECT pg_ringctl_set_policy('pg_class', '64kB', '0');
SELECT attempt('SELECT pg_ringctl_set_policy(1)') AS set, attempt('SELECT pg_ringctl_drop_policy(1)') AS drop;
SELECT * FROM resolve('temporary');
SELECT count(*) FROM temporary;
DROP TABLE temporary;

--
-- Partitions
--
CREATE TABLE measure (id int, year int, month int) PARTITION BY LIST (year);
CREATE TABLE measure_2025 PARTITION OF measure FOR VALUES IN (2025);
CREATE TABLE measure_2026 PARTITION OF measure FOR VALUES IN (2026) PARTITION BY LIST (month);
CREATE TABLE measure_2026_01 PARTITION OF measure_2026 FOR VALUES IN (1);
CREATE TABLE measure_2026_02 PARTITION OF measure_2026 FOR VALUES IN (2);
INSERT INTO measure SELECT id, 2025 + id % 2, 1 + id / 2 % 2 FROM generate_series(1, 1000) id;
CREATE FUNCTION rings_of_all() RETURNS TABLE (relation regclass, source text, kb bigint, reason text) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE 'SELECT count(*) FROM measure';
    RETURN QUERY SELECT g.relation, g.source, g.kb, r.reason
                   FROM (SELECT * FROM got WHERE got.relation IN (SELECT oid FROM pg_class) OFFSET 0) g,
                        resolve(g.relation) r
                  WHERE r.source = g.source AND r.kb IS NOT DISTINCT FROM g.kb;
END $$;
SELECT * FROM rings_of_all();
SELECT pg_ringctl_set_policy('measure', '64kB', '0');
SELECT * FROM rings_of_all();
SELECT pg_ringctl_set_policy('measure_2026', '128kB', '0');
SELECT * FROM rings_of_all();
SELECT pg_ringctl_set_policy('measure_2026_01', '256kB');	-- not a mixture
SELECT * FROM rings_of_all();
SELECT pg_ringctl_set_policy('measure_2026_01');
SELECT * FROM rings_of_all();
SELECT * FROM policies;
SELECT pg_ringctl_drop_policy('measure_2026_01');
SELECT * FROM rings_of_all();
SELECT pg_ringctl_set_policy('measure_2026');
SELECT * FROM rings_of_all();
SELECT pg_ringctl_drop_policy('measure_2026');
SELECT * FROM rings_of_all();
-- of a parent that was dropped and set by hand; and rolled back
SECURITY LABEL FOR pg_ringctl ON TABLE measure IS 'scan_ring=0, scan_threshold=0';
SELECT * FROM rings_of_all();
BEGIN;
SELECT pg_ringctl_drop_policy('measure');
SELECT * FROM rings_of_all();
ROLLBACK;
SELECT * FROM rings_of_all();

-- the family changes
SELECT pg_ringctl_set_policy('measure', '64kB', '0');
ALTER TABLE measure DETACH PARTITION measure_2025;
SELECT relation, source, kb FROM resolve('measure_2025', 'measure_2026_01');
ALTER TABLE measure ATTACH PARTITION measure_2025 FOR VALUES IN (2025);
SELECT * FROM rings_of_all();
ALTER TABLE measure DETACH PARTITION measure_2025 CONCURRENTLY;
SELECT relation, source, kb FROM resolve('measure_2025', 'measure_2026_01');
ALTER TABLE measure ATTACH PARTITION measure_2025 FOR VALUES IN (2025);
-- with everything below it, which was scanned before
ALTER TABLE measure DETACH PARTITION measure_2026;
SELECT relation, source, kb FROM resolve('measure_2025', 'measure_2026_01', 'measure_2026_02');
SELECT count(*) FROM measure_2026;
SELECT relation, source FROM got;
ALTER TABLE measure ATTACH PARTITION measure_2026 FOR VALUES IN (2026);
SELECT * FROM rings_of_all();
BEGIN;
ALTER TABLE measure DETACH PARTITION measure_2026;
SELECT relation, source, kb FROM resolve('measure_2026_01');
ROLLBACK;
SELECT relation, source, kb FROM resolve('measure_2026_01');
-- a subtree that brings its own
ALTER TABLE measure DETACH PARTITION measure_2026;
SELECT pg_ringctl_set_policy('measure_2026', '128kB', '0');
SELECT relation, source, kb FROM resolve('measure_2026_01');
ALTER TABLE measure ATTACH PARTITION measure_2026 FOR VALUES IN (2026);
SELECT * FROM rings_of_all();
SELECT pg_ringctl_drop_policy('measure_2026');
SELECT * FROM rings_of_all();
-- a new one
CREATE TABLE measure_2026_03 PARTITION OF measure_2026 FOR VALUES IN (3);
INSERT INTO measure VALUES (1, 2026, 3);
SELECT * FROM rings_of_all();
-- only what is named has a row, and it goes with it
SELECT * FROM policies;
DROP TABLE measure;
SELECT * FROM policies;
DROP FUNCTION rings_of_all;

--
-- Inheritance
--
CREATE TABLE father (id int);
CREATE TABLE mother (id int);
CREATE TABLE grandmother (id int);
ALTER TABLE mother INHERIT grandmother;
CREATE TABLE child () INHERITS (father, mother);
CREATE TABLE grandchild () INHERITS (child);
INSERT INTO father VALUES (1);
INSERT INTO mother VALUES (1);
INSERT INTO grandmother VALUES (1);
INSERT INTO child VALUES (1);
INSERT INTO grandchild VALUES (1);
SET client_min_messages = warning;	-- each is asked for
SELECT relation, source FROM resolve('father', 'mother', 'grandmother', 'child', 'grandchild');
SELECT pg_ringctl_set_policy('grandmother', '64kB', '0');
SELECT relation, source, kb, reason FROM resolve('father', 'mother', 'grandmother', 'child', 'grandchild');
SELECT pg_ringctl_set_policy('mother', '128kB', '0');
SELECT relation, source, kb, reason FROM resolve('father', 'mother', 'grandmother', 'child', 'grandchild');
SELECT pg_ringctl_set_policy('father', '256kB', '0');
SELECT relation, source, kb, reason FROM resolve('father', 'mother', 'grandmother', 'child', 'grandchild');
SELECT count(*) FROM grandmother;
SELECT * FROM got;
SELECT pg_ringctl_drop_policy('father');
SELECT relation, source, kb, reason FROM resolve('father', 'child', 'grandchild');
ALTER TABLE child NO INHERIT mother;
SELECT relation, source, kb FROM resolve('mother', 'child', 'grandchild');
ALTER TABLE child INHERIT mother;
SELECT relation, source, kb FROM resolve('mother', 'child', 'grandchild');
BEGIN;
ALTER TABLE child NO INHERIT mother;
SELECT relation, source, kb FROM resolve('child', 'grandchild');
ROLLBACK;
SELECT relation, source, kb FROM resolve('child', 'grandchild');
-- one that a child has for itself
SELECT pg_ringctl_set_policy('child');
SELECT relation, source, kb FROM resolve('mother', 'child', 'grandchild');
RESET client_min_messages;
DROP TABLE father, grandmother CASCADE;
SELECT * FROM policies;
-- a long chain: what is too far up is not looked at, also if there is not the stack for as much; above it many lines
-- lead to the chain, and if all of them were searched, the search would never end
CREATE TABLE line_0 (id int);
DO $$
BEGIN
    FOR i IN 1 .. 800 LOOP
        EXECUTE format('CREATE TABLE line_%s () INHERITS (line_%s)', i, i - 1);
    END LOOP;
END $$;
SELECT pg_ringctl_set_policy('line_0', '64kB', '0');
SET client_min_messages = warning;
SELECT relation, threshold FROM resolve('line_0', 'line_800', 'line_100');
CREATE TABLE left_1 () INHERITS (line_150);
CREATE TABLE right_1 () INHERITS (line_150);
DO $$
BEGIN
    FOR i IN 2 .. 60 LOOP
        EXECUTE format('CREATE TABLE left_%s () INHERITS (left_%s, right_%s)', i, i - 1, i - 1);
        EXECUTE format('CREATE TABLE right_%s () INHERITS (left_%s, right_%s)', i, i - 1, i - 1);
    END LOOP;
END $$;
RESET client_min_messages;
SELECT relation, threshold FROM resolve('left_60');
SELECT count(*) FROM left_60;
SET max_stack_depth = '100kB';
INSERT INTO line_800 VALUES (1);
SELECT id FROM line_800;
RESET max_stack_depth;
SET client_min_messages = warning;
DROP TABLE line_0 CASCADE;
RESET client_min_messages;

--
-- Who may
--
CREATE ROLE regress_ringctl_member IN ROLE regress_ringctl_owner;
CREATE ROLE regress_ringctl_user;
CREATE TABLE owned AS SELECT * FROM small;
ALTER TABLE owned OWNER TO regress_ringctl_owner;
CREATE FUNCTION as_role() RETURNS TABLE (command text, outcome text) LANGUAGE plpgsql AS $$
BEGIN
    FOREACH command IN ARRAY '{"SELECT pg_ringctl_set_policy(''owned'', ''64kB'', ''0'')",
                               "SELECT FROM pg_ringctl_policies",
                               "SELECT pg_ringctl_drop_policy(''owned'')",
                               "SECURITY LABEL FOR pg_ringctl ON TABLE owned IS ''scan_ring=64kB''",
                               "SELECT pg_ringctl_drop_all_policies()"}'::text[] LOOP
        outcome := attempt(command);
        RETURN NEXT;
    END LOOP;
END $$;
SET ROLE regress_ringctl_member;
SELECT * FROM as_role();
SELECT pg_ringctl_set_policy('owned', '64kB', '0');
SET ROLE regress_ringctl_user;
SELECT * FROM as_role();
-- without any right to the table, everybody sees it
SELECT schemaname, relname, scan_ring, scan_threshold, dirty_pages FROM pg_ringctl_policies;
SELECT * FROM pg_ringctl_parse_policy('scan_ring=64kB');
-- what is not all his own, he drops none of
RESET ROLE;
CREATE TABLE his AS SELECT 1 AS one;
ALTER TABLE his OWNER TO regress_ringctl_user;
SET ROLE regress_ringctl_user;
SELECT pg_ringctl_set_policy('his', '64kB', '0');
SELECT attempt('SELECT pg_ringctl_drop_all_policies()');
SELECT relname FROM pg_ringctl_policies ORDER BY relname;
RESET ROLE;
-- all privileges on a table don't make an owner
GRANT ALL ON owned TO regress_ringctl_user;
SET ROLE regress_ringctl_user;
SELECT attempt($$SELECT pg_ringctl_set_policy('owned', '64kB')$$) AS set,
       attempt($$SELECT pg_ringctl_drop_policy('owned')$$) AS drop;
RESET ROLE;
SELECT * FROM policies;
SELECT pg_ringctl_drop_all_policies();
DROP TABLE owned, his;
DROP ROLE regress_ringctl_owner, regress_ringctl_member, regress_ringctl_user;

DROP FUNCTION resolve, label, scan, as_role;
DROP VIEW policies, got;
