-- pool: shared_buffers as a whole, and what escaped.
--
-- Claims: pg_ringctl_pollution tells what each relation has in shared_buffers
-- as pg_buffercache does; pg_ringctl_map draws all of it, and its legend adds
-- up; pg_ringctl_escapes lists what a scan has left behind, which
-- pg_ringctl_reclaim gets rid of, for one relation or for all; who may use
-- these.

SELECT count(*) AS columns, bool_and(col_description(attrelid, attnum) <> '') AS described
  FROM pg_attribute WHERE attrelid IN ('pg_ringctl_rings'::regclass, 'pg_ringctl_ring_slots'::regclass, 'pg_ringctl_escapes'::regclass,
                                       'pg_ringctl_pollution'::regclass) AND attnum > 0;

--
-- What is there
--
VACUUM (FULL, FREEZE, ANALYZE) small;	-- others have changed it
SELECT fresh();
SELECT blocks FROM pg_ringctl_prewarm('small');
SELECT relname, relid = relname::regclass AS relid, datname = current_database() AS datname,
       relfilenode = pg_relation_filenode(relid) AS relfilenode,
       reltablespace = (SELECT dattablespace FROM pg_database WHERE oid = datid) AS reltablespace, buffers, in_ring, escaped, dirty,
       round(pool_fraction * 2048) AS share
  FROM pg_ringctl_pollution WHERE relname IN ('small', 'hot', 'big') ORDER BY relname;
SELECT blocks('small') AS small, blocks('hot') AS hot;
UPDATE small SET v = v WHERE id <= 8;
SELECT dirty BETWEEN 2 AND 6 AS dirty FROM pg_ringctl_pollution WHERE relname = 'small';
CHECKPOINT;
SELECT dirty FROM pg_ringctl_pollution WHERE relname = 'small';
-- pg_buffercache says the same of all, but for what the query itself reads
SELECT p.datid IS NOT NULL AS in_pool, count(*) > 20 AS many,
       bool_and(p.buffers BETWEEN b.buffers - 3 AND b.buffers + 3) AS same
  FROM (SELECT reldatabase, relfilenode, count(*) AS buffers FROM pg_buffercache
         WHERE relfilenode IS NOT NULL GROUP BY 1, 2 HAVING count(*) > 3) b
       LEFT JOIN pg_ringctl_pollution p ON (datid, p.relfilenode) = (reldatabase, b.relfilenode)
 GROUP BY 1;
SELECT sum(buffers) <= 2048 AS "all", abs(sum(pool_fraction) - sum(buffers) / 2048) < 0.000001 AS share,
       bool_and(in_ring + escaped <= buffers AND dirty <= buffers AND least(in_ring, escaped, dirty) >= 0) AS parts,
       bool_and(relid::regclass::oid = relid) FILTER (WHERE datname = current_database()) AS relations
  FROM pg_ringctl_pollution;
-- relations that all databases share have a name, too, in no database
SELECT datid, datname, relid::regclass, buffers > 0 AS buffers FROM pg_ringctl_pollution WHERE relname = 'pg_database';
-- another database's have none
\set here :DBNAME
\c postgres
SELECT count(*) > 0 AS catalog FROM pg_class;
\c :here
SELECT count(*) > 0 AS others, count(relid) AS relids, count(relname) AS names FROM pg_ringctl_pollution
 WHERE datname = 'postgres';

--
-- A scan that leaves pages behind: the server's own, after a load
--
CREATE TABLE loaded (LIKE big);
CREATE FUNCTION load(rel regclass) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('TRUNCATE %s', rel);
    EXECUTE format('INSERT INTO %s SELECT * FROM big', rel);
END $$;
CREATE TABLE loaded_too (LIKE big);
SELECT load('loaded'), load('loaded_too');
CHECKPOINT;
SELECT fresh();
SELECT count(*) FROM pg_ringctl_escapes;	-- of what was there before
SET pg_ringctl.mode = observe;
SELECT clock_timestamp() AS started \gset
SELECT count(*) FROM (SELECT id FROM loaded LIMIT 2800) l;
SELECT cached('loaded') > 600 AS most_are_there, escapes_dirty > 300 AS escaped FROM stats('loaded');
-- All that is there of it, but for its last ring.  The pool is not full, but look
-- twice: what the first look reads may take the place of some.
CREATE VIEW same_everywhere AS
    SELECT count(*) > 300 AS many, count(*) = count(DISTINCT e.bufferid) AS once, bool_and(e.relname = 'loaded') AS relname,
           bool_and(e.relid = 'loaded'::regclass) AS relid, bool_and(e.relforknumber = 0) AS main,
           bool_and(e.datid = (SELECT oid FROM pg_database WHERE datname = current_database())) AS datid,
           bool_and(e.reason IN ('dirty', 'pinned')) AS reason, bool_and(e.pid = pg_backend_pid()) AS pid,
           bool_and((b.relblocknumber, b.isdirty, b.usagecount) = (e.relblocknumber, e.isdirty, e.usagecount)) AS buffer,
           count(*) BETWEEN 0.9 * (cached('loaded') - (SELECT ring_buffers FROM stats('loaded'))) AND cached('loaded') AS "all",
           count(*) = (SELECT escaped FROM pg_ringctl_pollution WHERE relname = 'loaded') AS pollution,
           count(*) = (SELECT substring(line from 'E  escaped +(\d+) ')::bigint FROM pg_ringctl_map() line WHERE line LIKE 'E %') AS map
      FROM pg_ringctl_escapes e LEFT JOIN pg_buffercache b USING (bufferid);
SELECT count(*) FROM same_everywhere;
SELECT * FROM same_everywhere;
SELECT bool_and(escaped_at BETWEEN :'started' AND clock_timestamp()) AS escaped_at FROM pg_ringctl_escapes;
-- what is used by somebody else is skipped: here, pages read again and again
SET pg_ringctl.mode = control;
SET enable_seqscan = off;
CREATE TEMP TABLE kept AS SELECT relblocknumber AS block FROM pg_ringctl_escapes ORDER BY relblocknumber DESC LIMIT 10;
SELECT count(*) FROM generate_series(1, 3) g, LATERAL
    (SELECT FROM loaded WHERE ctid = ANY (ARRAY(SELECT format('(%s,1)', block)::tid FROM kept)) OFFSET g * 0) l;
RESET enable_seqscan;

-- of another relation there is nothing to reclaim, nor of one that is not there,
-- nor of a table's children by inheritance
SELECT count(*) AS escaped FROM pg_ringctl_escapes \gset
SELECT * FROM pg_ringctl_reclaim('loaded_too');
SELECT * FROM pg_ringctl_reclaim('hot');
SELECT * FROM pg_ringctl_reclaim(NULL);
CREATE TABLE ancestor (LIKE loaded);
ALTER TABLE loaded INHERIT ancestor;
SELECT * FROM pg_ringctl_reclaim('ancestor');
ALTER TABLE loaded NO INHERIT ancestor;
DROP TABLE ancestor;
SELECT count(*) = :escaped AS still_there FROM pg_ringctl_escapes;
SELECT cached('loaded') AS cached, cached('hot') AS hot \gset
SELECT buffers_evicted AS evicted, buffers_flushed AS flushed, buffers_skipped AS skipped
  FROM pg_ringctl_reclaim('loaded') \gset
SELECT :evicted + :skipped = :escaped AS "all", :flushed BETWEEN 1 AND :evicted AS flushed, :skipped AS skipped,
       cached('loaded') = :cached - :evicted AS evicted, cached('hot') = :hot AS hot_untouched;
SELECT count(*) AS kept FROM pg_ringctl_escapes WHERE relblocknumber IN (SELECT block FROM kept);
SELECT count(*) AS others FROM pg_ringctl_escapes WHERE relblocknumber NOT IN (SELECT block FROM kept);
SELECT * FROM pg_ringctl_reclaim('loaded');
-- The rows are there.
SELECT digest('SELECT * FROM loaded') = (SELECT digest('SELECT * FROM big')) AS same;

-- all of them; and a partition's through its parent
CREATE TABLE parent (LIKE big) PARTITION BY RANGE (id);
ALTER TABLE parent ATTACH PARTITION loaded FOR VALUES FROM (MINVALUE) TO (MAXVALUE);
SELECT load('loaded'), load('loaded_too');
CHECKPOINT;
SELECT fresh();
SET pg_ringctl.mode = observe;
SELECT count(*) FROM (SELECT id FROM loaded LIMIT 2000) l;
SELECT count(*) FROM (SELECT id FROM loaded_too LIMIT 2000) l;
SELECT relname, count(*) > 100 AS escapes FROM pg_ringctl_escapes GROUP BY 1 ORDER BY 1;
SELECT buffers_evicted > 100 AS evicted, buffers_skipped FROM pg_ringctl_reclaim('parent');
SELECT relname, count(*) > 100 AS escapes FROM pg_ringctl_escapes GROUP BY 1 ORDER BY 1;
SELECT buffers_evicted > 100 AS evicted, buffers_skipped FROM pg_ringctl_reclaim_all();
SELECT count(*) FROM pg_ringctl_escapes;
SELECT * FROM pg_ringctl_reclaim_all();
-- The log has a place for so many as there are buffers; the oldest go.
SELECT escapes_dropped AS dropped FROM pg_ringctl_stats_info \gset
SELECT count(*) FROM loaded;
SELECT escapes_dropped > :dropped AS dropped FROM pg_ringctl_stats_info;
SELECT count(*) BETWEEN 500 AND 2048 AS escapes FROM pg_ringctl_escapes;
SELECT pg_ringctl_reclaim_all() IS NOT NULL AS reclaimed;
SELECT count(*) AS escapes FROM pg_ringctl_escapes;
-- In control mode nothing is left behind.
RESET pg_ringctl.mode;
SELECT load('loaded');
CHECKPOINT;
SELECT fresh();
SELECT count(*) FROM loaded;
SELECT escapes_dirty + escapes_pinned AS escaped, (SELECT count(*) FROM pg_ringctl_escapes) AS escapes,
       (SELECT escaped FROM pg_ringctl_pollution WHERE relname = 'loaded') AS pollution FROM stats('loaded');

--
-- Rings, while they are in use
--
SET pg_ringctl.scan_ring = '64kB';
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM big;
MOVE 4000 FROM c;
SELECT relname, in_ring FROM pg_ringctl_pollution WHERE relname = 'big';
SELECT relname, ring_buffers, occupied, blocks_done, blocks_total FROM pg_ringctl_rings;
SELECT count(*) AS slots, count(bufferid) AS buffers FROM pg_ringctl_ring_slots(pg_backend_pid());
SELECT count(*) AS slots, count(bufferid) AS buffers FROM pg_ringctl_ring_slots();
SELECT relname, datname = current_database() AS datname, relforknumber, count(*) AS slots, count(relblocknumber) AS blocks,
       bool_and(holds_own_block) AS own, count(*) FILTER (WHERE is_current) AS current
  FROM pg_ringctl_ring_slots GROUP BY 1, 2, 3;
SELECT * FROM pg_ringctl_ring_slots(NULL);
SELECT line FROM pg_ringctl_map() line WHERE line LIKE 'R %';
COMMIT;
SELECT in_ring FROM pg_ringctl_pollution WHERE relname = 'big';
-- Slots that the session's last ring has lent, with pages of another table, hold no block of this one.
SET pg_ringctl.scan_ring = '2MB';
SELECT count(*) FROM loaded;
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM big;
MOVE 500 FROM c;
SELECT count(*) FILTER (WHERE s.relblocknumber IS NULL) > 0 AS lent, count(s.relblocknumber) > 0 AS own,
       count(*) FILTER (WHERE s.relblocknumber IS NOT NULL AND b.relfilenode <> pg_relation_filenode('big')) AS wrong,
       bool_or(s.holds_own_block) FILTER (WHERE s.relblocknumber IS NULL) AS holds_lent
  FROM pg_ringctl_ring_slots s JOIN pg_buffercache b USING (bufferid);
COMMIT;
RESET pg_ringctl.scan_ring;

--
-- The map
--
SELECT fresh();
-- height and width: 2,048 buffers, at most 16 lines
CREATE FUNCTION picture(width int) RETURNS TABLE (lines bigint, longest int, shortest int, per_glyph text, legend bigint)
LANGUAGE sql BEGIN ATOMIC
    SELECT count(*) FILTER (WHERE n < empty), max(length(line)) FILTER (WHERE n < empty),
           min(length(line)) FILTER (WHERE n < empty),
           min(substring(line from '(\d+|one) buffer')), count(*) FILTER (WHERE n > empty + 1)
      FROM (SELECT line, n, min(n) FILTER (WHERE line = '') OVER () AS empty
              FROM pg_ringctl_map(width) WITH ORDINALITY m (line, n)) m;
END;
SELECT width, p.* FROM unnest('{1, 2, 10, 60, 64, 100, 127, 128, 129, 1000}'::int[]) width, picture(width) p;
SELECT count(*) FROM (SELECT pg_ringctl_map(NULL) UNION ALL SELECT pg_ringctl_map_relation('hot', NULL) UNION ALL SELECT pg_ringctl_map_relation(NULL)) m;
-- glyphs and legend
CREATE FUNCTION legend(width int DEFAULT 64, relation regclass DEFAULT NULL)
RETURNS TABLE (glyph text, name text, buffers int, percent numeric) LANGUAGE sql BEGIN ATOMIC
    SELECT m[1], m[2], m[3]::int, m[4]::numeric
      FROM (SELECT pg_ringctl_map(width) WHERE relation IS NULL UNION ALL SELECT pg_ringctl_map_relation(relation, width)) l (line),
           regexp_match(line, '^(.)  (\S.*\S) +(\d+) +([\d.]+) %$') m WHERE m IS NOT NULL;
END;
SELECT array_agg(glyph || ' ' || name) AS legend, sum(buffers) AS buffers,
       bool_and(abs(percent - buffers / 20.48) <= 0.06) AS percent FROM legend();
SELECT array_agg(glyph || ' ' || name) AS legend, sum(buffers) AS buffers,
       bool_and(abs(percent - buffers / 20.48) <= 0.06) AS percent FROM legend(7, 'hot');
SELECT buffers FROM legend(64, 'hot') WHERE glyph = '#';
SELECT blocks FROM pg_ringctl_prewarm('small');
SELECT l.buffers, l.buffers = p.buffers AS same, l.buffers = blocks('small') AS "all"
  FROM legend(3, 'small') l, pg_ringctl_pollution p WHERE glyph = '#' AND p.relname = 'small';
CREATE TABLE empty ();
SELECT buffers FROM legend(3, 'empty') WHERE glyph = '#';
-- of a partitioned table, all its partitions; of another, not its children
CREATE TABLE child () INHERITS (empty);
SELECT buffers FROM legend(3, 'empty') WHERE glyph = '#';
DROP TABLE child;
CREATE TABLE tree (LIKE small) PARTITION BY RANGE (id);
SELECT buffers FROM legend(3, 'tree') WHERE glyph = '#';
CREATE TABLE tree_1 PARTITION OF tree FOR VALUES FROM (1) TO (41) PARTITION BY RANGE (id);
CREATE TABLE tree_1_1 PARTITION OF tree_1 DEFAULT;
CREATE TABLE tree_2 PARTITION OF tree DEFAULT;
CREATE INDEX tree_id ON tree (id);
INSERT INTO tree SELECT * FROM small;
SELECT rel, l.buffers = sum(p.buffers) AS same, l.buffers > 9 AS many, count(*) AS relations
  FROM (VALUES ('tree', 'tree_(1_1|2)'), ('tree_1', 'tree_1_1'), ('tree_id', 'tree_.*_id_idx')) v (rel, names),
       LATERAL legend(3, rel::regclass) l, pg_ringctl_pollution p
 WHERE glyph = '#' AND p.relname ~ ('^' || names || '$') GROUP BY rel, l.buffers ORDER BY rel;
DROP TABLE tree;
-- one buffer for each glyph: the picture is the legend
SELECT bool_and(buffers = drawn) AS same
  FROM (SELECT string_agg(line, '') FILTER (WHERE n < empty) AS picture, array_agg(line) AS lines
          FROM (SELECT line, n, min(n) FILTER (WHERE line = '') OVER () AS empty
                  FROM pg_ringctl_map_relation('hot', 128) WITH ORDINALITY m (line, n)) m) p,
       LATERAL (SELECT m[1] AS glyph, m[2]::int AS buffers
                  FROM unnest(lines) line, regexp_match(line, '^(.)  \S.*\S +(\d+) +[\d.]+ %$') m WHERE m IS NOT NULL) l,
       LATERAL (SELECT length(picture) - length(replace(picture, glyph, '')) AS drawn) d;
-- errors
CREATE VIEW a_view AS SELECT 1 AS one;
CREATE TEMP TABLE temporary AS SELECT 1 AS one;
SELECT what, attempt(format('SELECT * FROM pg_ringctl_map(%s)', what))
  FROM unnest('{0, -1, 1001, 2147483647, -2147483648}'::text[]) what;
SELECT what, attempt(format('SELECT * FROM pg_ringctl_map_relation(%s)', what))
  FROM unnest(ARRAY['''a_view''', '''parent''', '''hot'', 0', '4294967295', '''temporary''']) what;
SELECT attempt('SELECT pg_ringctl_reclaim(''temporary'')') AS reclaim;
SELECT attempt('SELECT pg_ringctl_reclaim(4294967295)') AS reclaim, attempt('SELECT pg_ringctl_reclaim(''a_view'')') AS view;

--
-- Partitions that are not in shared buffers are told of
--
CREATE FOREIGN DATA WRAPPER regress_nothing;
CREATE SERVER regress_nowhere FOREIGN DATA WRAPPER regress_nothing;
CREATE TABLE partly (id int) PARTITION BY RANGE (id);
CREATE TABLE partly_here PARTITION OF partly FOR VALUES FROM (0) TO (10);
CREATE FOREIGN TABLE partly_far PARTITION OF partly FOR VALUES FROM (10) TO (20) SERVER regress_nowhere;
SELECT * FROM pg_ringctl_reclaim('partly');
SELECT count(*) FROM pg_ringctl_map_relation('partly', 1);
DROP TABLE partly;
DROP FOREIGN DATA WRAPPER regress_nothing CASCADE;

--
-- Who may use these
--
CREATE ROLE regress_ringctl_user;
CREATE FUNCTION as_user() RETURNS TABLE (what text, outcome text) LANGUAGE sql
BEGIN ATOMIC
    SELECT c, attempt('SELECT * FROM ' || c)
      FROM unnest('{pg_ringctl_rings, pg_ringctl_rings(), pg_ringctl_ring_slots, pg_ringctl_ring_slots(), pg_ringctl_escapes,
                    pg_ringctl_escapes(), pg_ringctl_reclaim_all(), "pg_ringctl_reclaim(''small'')", pg_ringctl_pollution,
                    pg_ringctl_pollution(), pg_ringctl_map(), "pg_ringctl_map_relation(''small'')", pg_ringctl_ring_slots(1),
                    pg_ringctl_last_scans(), pg_ringctl_resolve(''small'')}'::text[]) c;
END;
SET ROLE regress_ringctl_user;
SELECT * FROM as_user();
RESET ROLE;
GRANT pg_read_all_stats TO regress_ringctl_user;
SET ROLE regress_ringctl_user;
SELECT * FROM as_user();
SELECT count(*) > 0 AS rows, count(relname) > 0 AS names FROM pg_ringctl_pollution;
RESET ROLE;
GRANT EXECUTE ON FUNCTION pg_ringctl_reclaim(regclass) TO regress_ringctl_user;
SET ROLE regress_ringctl_user;
SELECT attempt('SELECT pg_ringctl_reclaim(''small'')') AS one, attempt('SELECT pg_ringctl_reclaim_all()') AS "all";
RESET ROLE;
REVOKE ALL ON FUNCTION pg_ringctl_reclaim(regclass) FROM regress_ringctl_user;
DROP ROLE regress_ringctl_user;

DROP VIEW same_everywhere;
DROP FUNCTION load, picture, legend, as_user;
DROP TABLE parent, loaded_too, empty;
DROP VIEW a_view;
