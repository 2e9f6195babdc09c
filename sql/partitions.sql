-- partitions: a table in 20 of them, each too small for a ring by the
-- server's rule, together two and a half times shared_buffers.
--
-- Claims: with scan_threshold = 0 the hot table survives a scan of all of
-- them, in one query and in one for each, and all together they leave no more
-- pages than one ring has: a ring passes from scan to scan.  The rows are the
-- server's, in its order.  A DELETE leaves up to 64 dirty pages besides, all
-- partitions together, and writes none if there are no more.

CREATE TABLE parted (id int, v int, filler text) PARTITION BY RANGE (id);
SELECT format('CREATE TABLE parted_%s PARTITION OF parted FOR VALUES FROM (%s) TO (%s)',
              n, n * 1024 + 1, (n + 1) * 1024 + 1)
  FROM generate_series(0, 19) n \gexec
INSERT INTO parted SELECT * FROM big;
VACUUM (ANALYZE) parted;

-- Pages of all of them in shared_buffers.
CREATE FUNCTION cached_parts() RETURNS numeric LANGUAGE sql
RETURN (SELECT sum(cached(relid)) FROM pg_partition_tree('parted') WHERE isleaf);

CREATE FUNCTION digest_each() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    p regclass;
    result text := '';
BEGIN
    FOR p IN SELECT relid FROM pg_partition_tree('parted') WHERE isleaf ORDER BY relid LOOP
        result := result || digest(format('SELECT id, v FROM %s', p));
    END LOOP;
    RETURN result;
END $$;

-- "left": how many pages may stay in addition to the ring's, see sql/dirty.sql.
CREATE FUNCTION verdict("left" int DEFAULT 0)
RETURNS TABLE (partitions bigint, scans numeric, hot boolean, one_ring boolean,
               escapes_pinned numeric, escapes_dirty numeric, exact boolean) LANGUAGE sql
BEGIN ATOMIC
    SELECT count(*), sum(s.scans), hot_survives(), cached_parts() <= max(s.ring_buffers) + "left",
           sum(s.escapes_pinned), sum(s.escapes_dirty), exact()
      FROM pg_ringctl_stats s WHERE s.relname LIKE 'parted%';
END;

-- The server's rule gives them no ring: nothing is counted, the hot table is lost.
SELECT fresh();
SELECT count(*), sum(id) FROM parted;
SELECT count(*) AS counted, hot_is_lost() FROM pg_ringctl_stats;

SET pg_ringctl.scan_threshold = 0;

-- one query
SELECT fresh();
SELECT count(*), sum(id) FROM parted;
SELECT * FROM verdict();

-- one for each
SELECT fresh();
SELECT digest_each() <> '' AS done;
SELECT * FROM verdict();

-- The first scan after the load
TRUNCATE parted;
INSERT INTO parted SELECT * FROM big;
CHECKPOINT;
SELECT fresh();
SELECT count(*), sum(id) FROM parted;
SELECT * FROM verdict();

-- Rings of every size, and results
SELECT ring, digest('SELECT id, v FROM parted') = (SELECT digest('SELECT id, v FROM big')) AS same_as_big,
       v.*
  FROM unnest('{64kB, 128kB, 1MB, 2MB}'::text[]) ring,
       LATERAL (SELECT set_config('pg_ringctl.scan_ring', ring, true), fresh(),
                       digest('SELECT id, v FROM parted') OFFSET 0) d,
       LATERAL (SELECT * FROM verdict() WHERE d IS NOT NULL) v;
SELECT what, (SELECT same FROM judge(query, 'parted_0')) AS same
  FROM (VALUES ('append', 'SELECT id, v FROM parted'),
               ('limit', 'SELECT id FROM parted LIMIT 5000'),
               ('pruned', 'SELECT id FROM parted WHERE id < 3000'),
               ('sorted', 'SELECT id FROM parted ORDER BY id DESC'),
               ('join', 'SELECT a.id FROM parted a JOIN parted b ON a.id = b.id + 1000'),
               ('hashed subplan', 'SELECT id FROM parted WHERE id NOT IN (SELECT id FROM big WHERE v > 5)'),
               ('rescans', 'SELECT s.id, (SELECT sum(p.id) FROM parted p WHERE p.v = s.v) FROM small s
                             WHERE s.id < 5')) q (what, query);

-- Scanned again and again, by a subplan and by a cursor that goes to and fro:
-- also then a ring passes from one to the next.
\c -
SET pg_ringctl.scan_threshold = 0;
SELECT fresh();
SELECT s.id, (SELECT sum(p.id) FROM parted p WHERE p.v = s.v) FROM small s WHERE s.id < 5;
SELECT * FROM verdict();
\c -
SET pg_ringctl.scan_threshold = 0;
SELECT fresh();
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id FROM parted;
MOVE ALL FROM c;
MOVE BACKWARD ALL FROM c;	-- rescans
MOVE ALL FROM c;
MOVE BACKWARD 20000 FROM c;	-- turns
MOVE ALL FROM c;
FETCH BACKWARD 1 FROM c;
COMMIT;
SELECT * FROM verdict();

SET enable_partitionwise_join = on;
SET enable_partitionwise_aggregate = on;
SELECT same FROM judge('SELECT a.id, count(*) FROM parted a JOIN parted b ON a.id = b.id GROUP BY a.id ORDER BY 1',
                       'parted_0');
RESET enable_partitionwise_join;
RESET enable_partitionwise_aggregate;

-- A scrolled cursor over several
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id FROM parted;
MOVE 5000 FROM c;
FETCH 2 FROM c;
MOVE BACKWARD 4000 FROM c;
FETCH 2 FROM c;
FETCH LAST FROM c;
FETCH BACKWARD 2 FROM c;
FETCH FIRST FROM c;
COMMIT;

-- Changes: of rows, and from one partition to another
UPDATE parted SET v = -1 WHERE id % 1000 = 0;
UPDATE parted SET id = (id + 5000) % 20000 WHERE id % 5000 = 7;
SELECT count(*), count(DISTINCT id), sum(id), count(*) FILTER (WHERE v = -1) AS changed FROM parted;
\c -
SET pg_ringctl.scan_threshold = 0;
SELECT fresh();
DELETE FROM parted WHERE id % 2 = 0;
SELECT * FROM verdict(64);
SELECT count(*) FROM parted;

-- All partitions together leave at most 64 dirty pages, not 64 each
SET pg_ringctl.max_ring = '1MB';
CHECKPOINT;
SELECT fresh();
DELETE FROM parted WHERE id % 4 = 1;
SELECT *, (SELECT max(ring_buffers) <= 128 FROM pg_ringctl_stats) AS small FROM verdict(64);
RESET pg_ringctl.max_ring;
SELECT count(*) FROM parted;

-- If fewer are dirtied, each stays dirty, no WAL is flushed, and the ring stays small; also
-- those in the last blocks of a partition, whose buffers the ring of the next one begins with.
\c -
SET pg_ringctl.scan_threshold = 0;
SELECT count(*) FROM parted;	-- hint bits
CHECKPOINT;
SELECT fresh();
BEGIN;
DELETE FROM parted WHERE id % 512 = 511;
SELECT (SELECT count(*) FROM pg_buffercache b JOIN pg_partition_tree('parted') t
                                 ON b.relfilenode = pg_relation_filenode(t.relid)
         WHERE isleaf AND isdirty AND relforknumber = 0) AS still_dirty,
       (SELECT sum(wal_flushes) FROM pg_ringctl_stats) AS wal_flushes,
       (SELECT max(ring_buffers) <= 64 FROM pg_ringctl_stats) AS small, v.* FROM verdict(64) v;
ROLLBACK;

DROP FUNCTION digest_each, verdict, cached_parts;
DROP TABLE parted;
